# EM of mhsmm on sequences of codes: Rscript run_mhsmm.R FOLDER ITERATIONS
# Reads tables and sequences from FOLDER as CSV files without headers; writes seconds of the
# processor and of the clock, and the number of iterations, to FOLDER/times.csv.
library(mhsmm)

arguments <- commandArgs(trailingOnly = TRUE)
table_of <- function(name) {
  as.matrix(read.csv(file.path(arguments[1], paste0(name, ".csv")), header = FALSE))
}
rows <- table_of("train")
n_symbols <- ncol(table_of("emission"))

density_of <- function(x, j, model) model$parms.emission$p[j, x + 1]
maximise <- function(x, wt) {
  counts <- sapply(0:(n_symbols - 1), function(k) colSums(wt[x == k, , drop = FALSE]))
  list(p = counts / rowSums(counts))
}

model <- hsmmspec(
  init = as.vector(table_of("start")),
  transition = table_of("transition"),
  parms.emission = list(p = table_of("emission")),
  sojourn = list(d = t(table_of("duration")), type = "nonparametric"),
  dens.emission = density_of
)
data <- list(x = as.vector(t(rows)), N = rep(ncol(rows), nrow(rows)))
class(data) <- "hsmm.data"
taken <- system.time(
  fit <- hsmmfit(data, model, mstep = maximise, M = ncol(table_of("duration")),
                 maxit = as.integer(arguments[2]))
)
times <- c(taken[["user.self"]] + taken[["sys.self"]], taken[["elapsed"]], length(fit$loglik))
writeLines(paste(times, collapse = ","), file.path(arguments[1], "times.csv"))
