"""What the console can change. Each action is planned first, from present facts and where the protocol has it by a dry run of the brokers;
the page shows the plan and the command line that does the same, and sends the same request once more to have it executed.

| File | Actions |
|---|---|
| `plan` | the plan of an action, and how a request becomes one |
| `outcomes` | what became of the newest changes, for requests that come again |
| `topics` | topics created, deleted and emptied, partitions added |
| `settings` | settings of topics and brokers |
| `groups` | groups deleted |
| `leaders` | leaders moved, back to preferred replicas or away from a broker |
| `permissions` | ACLs, and users with SCRAM credentials |
| `transactions` | hanging transactions aborted |
| `table` | all of them by name |

An action has nothing of its own that guards it: every one is a POST, so `console.access` decides, and a console that only reads has none.
"""
