# The ledger, and the one step that reads data.

ledger <- function(path, budget = NULL, population = NULL) {
  options <- list(path.expand(path))
  if (!is.null(budget)) options <- c(options, require_kind(budget, "guarantee", "budget"))
  if (!is.null(population)) options$population <- population
  asking(standing_for(do.call(python()$Ledger, options), "ledger"))
}

spent <- function(ledger) standing_for(asking(require_kind(ledger, "ledger", "ledger")$spent), "guarantee")

remaining <- function(ledger) standing_for(asking(require_kind(ledger, "ledger", "ledger")$remaining), "guarantee")

measure <- function(plan, data, ledger, out = NULL, purpose = "release") {
  planned <- require_kind(plan, "plan", "plan")
  debited <- require_kind(ledger, "ledger", "ledger")
  source <- if (is.data.frame(data)) arrow_of(data) else path.expand(data)
  out <- if (is.null(out)) NULL else path.expand(out)
  asking(standing_for(python()$measure(planned, source, ledger = debited, out = out, purpose = purpose), "release"))
}

adult <- function() {
  python()
  as.character(file.path(reticulate::import("residua.demo_data")$demo_folder(), "adult.parquet"))
}

# A data.frame as an Arrow table. What is NA is masked by hand: reticulate turns a missing string into "NA".
arrow_of <- function(data) {
  arrow <- reticulate::import("pyarrow", convert = FALSE)
  numpy <- reticulate::import("numpy", convert = FALSE)
  names <- names(data)
  if (anyDuplicated(names)) stop("two columns of data have one name; rename one.", call. = FALSE)
  columns <- lapply(names, function(name) {
    column <- data[[name]]
    missing <- numpy$array(as.list(is.na(column)), dtype = "bool")
    arrow_column(column, missing, name, arrow)
  })
  asking(arrow$table(columns, names = as.list(names)))
}

arrow_column <- function(column, missing, name, arrow) {
  if (is.factor(column)) column <- as.character(column)
  if (inherits(column, "Date")) {
    text <- ifelse(is.na(column), "1970-01-01", format(column, "%Y-%m-%d"))
    return(arrow$array(as.list(text), mask = missing)$cast(arrow$date32()))
  }
  if (inherits(column, "integer64") || !(is.character(column) || is.numeric(column) || is.logical(column))) {
    stop(sprintf("column %s of data is a %s; make it text, a number, a logical or a Date.", name, class(column)[1]),
         call. = FALSE)
  }
  column[is.na(column)] <- if (is.character(column)) "" else if (is.logical(column)) FALSE else 0L
  if (is.character(column)) column <- enc2utf8(column)
  arrow$array(as.list(column), mask = missing)
}
