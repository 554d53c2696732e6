# What was measured: tables and quoted numbers as data frames, files, reports.

release_table <- function(release, attributes, confidence = 0.95) {
  if (inherits(attributes, "formula")) attributes <- all.vars(attributes)
  published(asked_of(release)$table(listed(attributes), confidence = confidence))
}

as.data.frame.residua_release <- function(x, row.names = NULL, optional = FALSE, ..., attributes) {
  release_table(x, attributes, ...)
}

count <- function(release, where = NULL, confidence = 0.95) {
  found <- asking(asked_of(release)$count(conditions(where), confidence = confidence))
  fields <- c("estimate", "stddev", "lower", "upper")
  as_table(lapply(stats::setNames(fields, fields), function(name) as_r(found[[name]])), interval_note(confidence))
}

share <- function(release, of, by = NULL, confidence = 0.95) {
  of <- if (is.list(of)) conditions(of) else listed(of)
  published(asked_of(release)$share(of, by = grouped(by), confidence = confidence))
}

ratio <- function(release, top, bottom, by = NULL, confidence = 0.95) {
  published(asked_of(release)$ratio(conditions(top), conditions(bottom), by = grouped(by), confidence = confidence))
}

mean.residua_release <- function(x, attribute, by = NULL, confidence = 0.95, ...) {
  published(asked_of(x)$mean(attribute, by = grouped(by), confidence = confidence))
}

median.residua_release <- function(x, na.rm = FALSE, attribute, by = NULL, confidence = 0.95, ...) {
  published(asked_of(x)$median(attribute, by = grouped(by), confidence = confidence))
}

quantile.residua_release <- function(x, attribute, probs = c(0.25, 0.5, 0.75), by = NULL, confidence = 0.95, ...) {
  published(asked_of(x)$quantile(attribute, as.list(probs), by = grouped(by), confidence = confidence))
}

summary.residua_release <- function(object, ...) {
  cat(as_r(object$py$summary), as_r(object$py$advice), sep = "\n")
  invisible(object)
}

save_release <- function(release, path) {
  asking(asked_of(release)$save(path.expand(path)))
  invisible(release)
}

load_release <- function(path) asking(standing_for(python()$Release$load(path.expand(path)), "release"))

report <- function(x, path, title = NULL) {
  if (!inherits(x, c("residua_plan", "residua_release"))) stop("x must be a plan or a release.", call. = FALSE)
  asking(x$py$report(path.expand(path), title = title))
  invisible(path)
}

asked_of <- function(release) require_kind(release, "release", "release")

grouped <- function(by) if (is.null(by)) list() else listed(by)

# list(sex = "Female", age = c(17, 25)) as Python has it.
conditions <- function(where) {
  if (is.null(where)) return(NULL)
  if (is.character(where) && is.null(names(where))) return(where)
  lapply(as.list(where), function(labels) if (length(labels) == 1L) labels else as.list(labels))
}

interval_note <- function(confidence) sprintf("lower to upper: %g %% intervals, each by itself", 100 * confidence)

# What Python published, column by column.
published <- function(table) {
  asking({
    columns <- as_r(table$to_arrow()$to_pydict())
    as_table(lapply(columns, plain_column), as_r(table$note))
  })
}

# None becomes NA; lists of one type become vectors.
plain_column <- function(column) {
  if (!is.list(column)) return(as.vector(column))
  column[vapply(column, is.null, logical(1))] <- NA
  unlist(column)
}

as_frame <- function(columns) {
  frame <- data.frame(columns, check.names = FALSE, stringsAsFactors = FALSE)
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(frame) else frame
}

as_table <- function(columns, note) {
  frame <- as_frame(columns)
  structure(frame, note = note, class = c("residua_table", class(frame)))
}

print.residua_table <- function(x, ...) {
  print(as.data.frame(unclass_table(x)), row.names = FALSE, ...)
  if (length(attr(x, "note")) && nzchar(attr(x, "note"))) cat("(", attr(x, "note"), ")\n", sep = "")
  invisible(x)
}

unclass_table <- function(x) structure(x, class = setdiff(class(x), "residua_table"))

plot.residua_table <- function(x, ...) {
  frame <- as.data.frame(unclass_table(x))
  keys <- setdiff(names(frame), c("estimate", "stddev", "lower", "upper"))
  labels <- if (length(keys)) do.call(paste, c(unname(frame[keys]), sep = ", ")) else rep("", nrow(frame))
  places <- rev(seq_len(nrow(frame)))
  margins <- graphics::par(mar = c(5, max(4, max(nchar(labels)) / 2), 2, 1))
  on.exit(graphics::par(margins))
  shown <- range(frame$lower, frame$upper, finite = TRUE)
  graphics::plot(frame$estimate, places, xlim = shown, yaxt = "n", ylab = "", xlab = "estimate", pch = 19, ...)
  graphics::segments(frame$lower, places, frame$upper, places)
  graphics::axis(2, at = places, labels = labels, las = 1)
  invisible(x)
}
