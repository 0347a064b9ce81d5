"""Several processes and machines that train one model: starting them, their exchange, spread weights."""
