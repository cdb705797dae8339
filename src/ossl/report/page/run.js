// A run's page needs no more than its colours.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
