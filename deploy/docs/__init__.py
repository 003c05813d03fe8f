"""The documentation as a site: `python -m deploy.docs [FOLDER]`.

| Module | What it does |
|---|---|
| `contents` | which pages there are, in order, and where each comes from |
| `staging` | puts all pages into one folder, as Sphinx wants them, and writes `llms.txt` |
| `blocks` | the blocks of code of a page: which are run by the tests, and which are only shown |
| `command_reference`, `settings_reference`, `names_reference`, `api_reference` | pages that are made from the code |
| `drawings` | the pictures in `pictures`, drawn of pages that benchmarks wrote and of the code: `python -m deploy.docs.drawings` |
| `redirects` | pages at old addresses, which lead on |
| `site_pages` | what Sphinx does not do by itself: drawings within pages; `site` has styles and scripts |
| `reference` | what pages that are made of the code are: an overview, and a page for each part |
| `conf` | Sphinx's settings |

The recording is made again by `python -m deploy.docs.drawings.record`, the screenshots of the console by
`python -m tests.system.screenshots`.
"""
