# The door to Python: one module, loaded when first used; errors as one sentence.

module <- new.env(parent = emptyenv())

python <- function() {
  if (is.null(module$residua)) {
    if (!residua_available()) {
      stop("the Python package residua is not there; run install_residua(), or set RETICULATE_PYTHON to a Python ",
           "(3.11 or newer) that has it.", call. = FALSE)
    }
    module$residua <- reticulate::import("residua", convert = FALSE)
  }
  module$residua
}

residua_available <- function() {
  asked <- Sys.getenv("RETICULATE_PYTHON")
  managed <- tryCatch(reticulate::virtualenv_exists("r-residua"), error = function(problem) FALSE)
  if (!nzchar(asked) && managed && !reticulate::py_available()) {
    reticulate::use_virtualenv("r-residua", required = FALSE)
  }
  isTRUE(tryCatch(reticulate::py_module_available("residua"), error = function(problem) FALSE))
}

install_residua <- function(package = "residua[measure]", envname = "r-residua", ...) {
  if (!reticulate::virtualenv_exists(envname)) reticulate::virtualenv_create(envname, ...)
  if (!endsWith(package, "]")) package <- paste0(package, "[measure]")  # measuring needs the extra
  reticulate::virtualenv_install(envname, package, ignore_installed = FALSE)
  if (reticulate::py_available()) message("Python is running already: restart R to use what was installed.")
  invisible(envname)
}

# Runs what asks Python; what Python refuses becomes an R error with the same sentence.
asking <- function(expression) {
  tryCatch(expression, error = function(problem) {
    sentence <- sub("^[A-Za-z_.]*(Error|Exception|Interrupt)(: |$)", "", conditionMessage(problem))
    stop(sub("\nRun `reticulate::py_last_error\\(\\)`.*", "", sentence), call. = FALSE)
  })
}

# An R object that stands for a Python value.
standing_for <- function(value, kind) structure(list(py = value), class = c(paste0("residua_", kind), "residua"))

require_kind <- function(x, kind, argument) {
  if (!inherits(x, paste0("residua_", kind))) {
    stop(sprintf("%s must be a %s of residua, not a %s.", argument, kind, class(x)[1]), call. = FALSE)
  }
  x$py
}

# Several strings stay a list in Python where one string would be a name.
listed <- function(x) if (is.null(x)) NULL else as.list(as.character(x))

as_r <- function(x) reticulate::py_to_r(x)

# An array of NumPy, by way of a list: older reticulate cannot convert the arrays of NumPy 2 itself.
array_of <- function(x) {
  numbers <- unlist(as_r(x$ravel()$tolist()))
  sizes <- unlist(as_r(x$shape))
  if (length(sizes) < 2L) numbers else aperm(array(numbers, rev(sizes)))
}

format.residua <- function(x, ...) asking(reticulate::py_str(x$py))

print.residua <- function(x, ...) {
  cat(format(x), sep = "\n")
  invisible(x)
}
