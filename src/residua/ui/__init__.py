"""The planner page: `residua ui` serves it on loopback, to declare, ask and weigh a budget before any data is read."""
