# The best noise for a workload, and its errors, before any data are read.

plan <- function(workload, budget = NULL, stddev = NULL, margin = NULL, minimise = NULL) {
  options <- list(require_kind(workload, "workload", "workload"))
  if (!is.null(budget)) options <- c(options, require_kind(budget, "guarantee", "budget"))
  wanted <- list(stddev = stddev, margin = margin, minimise = minimise)
  asking(standing_for(do.call(python()$plan, c(options, Filter(Negate(is.null), wanted))), "plan"))
}

variance <- function(plan, attributes) {
  asking(array_of(require_kind(plan, "plan", "plan")$variance(listed(attributes))))
}

as.data.frame.residua_plan <- function(x, row.names = NULL, optional = FALSE, ...) {
  workload <- x$py$workload
  titles <- asking(as_r(reticulate::import_builtins(convert = FALSE)$list(workload$titles())))
  variances <- asking(array_of(x$py$variances(workload, per = "term")))
  as_frame(list(table = unlist(titles), stddev = sqrt(variances)))
}

summary.residua_plan <- function(object, ...) object

plot.residua_plan <- function(x, ...) {
  frame <- as.data.frame(x)
  margins <- graphics::par(mar = c(5, max(4, max(nchar(frame$table)) / 2), 2, 1))
  on.exit(graphics::par(margins))
  graphics::dotchart(rev(frame$stddev), labels = rev(frame$table), xlab = "standard deviation of a count", ...)
  invisible(x)
}
