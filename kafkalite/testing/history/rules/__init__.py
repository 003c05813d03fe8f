"""The promises that histories are held to, one module for each family; `kafkalite.testing.history.judge` names them all."""
