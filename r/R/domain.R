# What a table may hold, what is asked, and what may be spent.

domain <- function(...) {
  attributes <- list(...)
  if (!length(attributes) || is.null(names(attributes)) || any(names(attributes) == "")) {
    stop("name every attribute: domain(sex = c(\"F\", \"M\"), age = integers(0, 99)).", call. = FALSE)
  }
  asking(standing_for(python()$Domain(lapply(attributes, attribute)), "domain"))
}

# The Python value of one attribute: codes of a factor or vector, or what bins() and integers() made.
attribute <- function(values) {
  if (inherits(values, "residua_attribute")) return(values$py)
  if (is.factor(values)) values <- levels(values)
  if (anyNA(values)) stop("a value of a domain is missing; leave it out.", call. = FALSE)
  as.list(values)
}

bins <- function(edges) asking(standing_for(python()$Bins(as.list(edges)), "attribute"))

integers <- function(low, high) {
  asking(standing_for(python()$Integers(as.integer(low), as.integer(high)), "attribute"))
}

marginals <- function(domain, tables = NULL, ways = NULL) {
  known <- require_kind(domain, "domain", "domain")
  if (inherits(tables, "formula")) tables <- tables_of(tables)
  if (is.null(tables) == is.null(ways)) stop("give either tables or ways.", call. = FALSE)
  asked <- if (is.null(ways)) list(lapply(tables, listed)) else list(ways = as.list(as.integer(ways)))
  asking(standing_for(do.call(python()$marginals, c(known, asked)), "workload"))
}

# ~ age * sex asks for age, sex and age by sex, as in a model formula.
tables_of <- function(formula) {
  if (length(formula) != 2L) stop("a formula of tables has no left side: ~ age * sex.", call. = FALSE)
  terms <- attr(stats::terms(formula), "factors")
  if (!length(terms)) stop("the formula asks for no table; write ~ age * sex.", call. = FALSE)
  unquoted <- gsub("`", "", rownames(terms), fixed = TRUE)
  lapply(seq_len(ncol(terms)), function(term) unquoted[terms[, term] > 0])
}

zcdp <- function(rho) asking(standing_for(python()$ZCDP(rho = as.double(rho)), "guarantee"))

gdp <- function(mu) asking(standing_for(python()$GDP(mu = as.double(mu)), "guarantee"))

pure_dp <- function(epsilon) asking(standing_for(python()$PureDP(epsilon = as.double(epsilon)), "guarantee"))

approx_dp <- function(epsilon, delta) {
  asking(standing_for(python()$ApproxDP(epsilon = as.double(epsilon), delta = as.double(delta)), "guarantee"))
}
