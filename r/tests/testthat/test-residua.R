skip_if_not(residua_available(), "Python has no residua")

people <- domain(age = bins(c(17, 25, 35, 45, 55, 65, 91)), sex = c("Female", "Male"), income = c("<=50K", ">50K"))
best <- plan(marginals(people, ways = 1:2), zcdp(rho = 0.5))

measured <- function(data = adult(), plan = best) {
  measure(plan, data, ledger(tempfile(fileext = ".ledger"), zcdp(rho = 1)))
}

test_that("a plan has the numbers of the Python tutorial", {
  expect_equal(round(as.vector(variance(best, c("sex", "income"))), 3), rep(2.916, 4))
  frame <- as.data.frame(best)
  expect_equal(frame$table[c(1, 6)], c("age", "sex \u00d7 income"))
  expect_equal(round(frame$stddev, 3), c(1.568, 2.103, 2.103, 1.346, 1.346, 1.708))
  expect_match(paste(format(best), collapse = "\n"), "proven the best possible")
})

test_that("a formula asks for what a model formula would", {
  asked <- plan(marginals(people, ~ sex * income), zcdp(0.5))
  expect_equal(as.data.frame(asked)$table, c("sex", "income", "sex \u00d7 income"))
  expect_equal(variance(plan(marginals(people, list(c("sex", "income"))), zcdp(0.5)), c("sex", "income")),
               variance(plan(marginals(people, ~ sex:income), zcdp(0.5)), c("sex", "income")))
  expect_error(marginals(people, sex ~ income), "no left side")
  expect_error(marginals(people), "either tables or ways")
})

test_that("tables and quoted numbers come as data frames with intervals", {
  release <- measured()
  table <- release_table(release, c("sex", "income"))
  expect_s3_class(table, "data.frame")
  expect_named(table, c("sex", "income", "estimate", "stddev", "lower", "upper"))
  expect_lt(abs(table$estimate[2] - 1179), 6 * table$stddev[2])  # false alarm: 2 in 10^9
  expect_equal(as.data.frame(release, attributes = c("sex", "income"))$estimate, table$estimate)
  expect_equal(release_table(release, ~ sex + income)$estimate, table$estimate)
  expect_equal(count(release, list(sex = "Female", income = ">50K"))$estimate, table$estimate[2])
  expect_equal(nrow(share(release, "income", by = "sex")), 4L)
  expect_named(share(release, list(income = ">50K"), by = "sex"), c("sex", "estimate", "stddev", "lower", "upper"))
  expect_equal(nrow(mean(release, "age", by = "sex")), 2L)
  expect_equal(nrow(median(release, attribute = "age")), 1L)
  expect_equal(quantile(release, "age", c(0.1, 0.9))$quantile, c("0.1", "0.9"))
  expect_equal(nrow(ratio(release, list(sex = "Female"), list(sex = "Male"))), 1L)
  expect_output(print(table), "95 % intervals")
  expect_output(summary(release), "6 tables were asked for")
})

test_that("data frames are read as they are: factors, dates, missing values", {
  rows <- data.frame(sex = factor(c("F", NA, "M", "M")[rep(1:4, 500)]), n = c(1L, 2L, NA, 2L)[rep(1:4, 500)])
  small <- domain(sex = c("F", "M"), n = integers(1, 2))
  asked <- plan(marginals(small, ways = 1), zcdp(0.5))
  expect_error(measured(rows, asked), "missing")
  release <- measured(rows[stats::complete.cases(rows), ], asked)
  counted <- release_table(release, "sex")
  expect_true(all(abs(counted$estimate - c(500, 500)) < 6 * counted$stddev))  # false alarm: 4 in 10^9
  expect_error(measured(data.frame(sex = "F", n = Sys.time()), asked), "column n of data is a POSIXct")
})

test_that("what is refused is one sentence, and nothing is spent", {
  held <- ledger(tempfile(fileext = ".ledger"), zcdp(rho = 0.25))
  expect_error(measure(best, adult(), held), "the budget of .* is exhausted|plan for what is left")
  expect_match(format(remaining(held)), "0.25")
  expect_error(measure(best, adult(), "a.ledger"), "ledger must be a ledger of residua")
  expect_error(domain(c("F", "M")), "name every attribute")
  expect_error(zcdp(-1), "rho")
})

test_that("releases are saved, loaded and reported; everything is printed and drawn", {
  release <- measured()
  folder <- tempfile()
  save_release(release, folder)
  expect_equal(release_table(load_release(folder), "sex"), release_table(release, "sex"))
  page <- report(release, tempfile(fileext = ".html"))
  expect_true(file.size(page) > 1000)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_s3_class(plot(release_table(release, "age")), "residua_table")
  expect_s3_class(plot(best), "residua_plan")
  expect_output(print(people), "sex")
})
