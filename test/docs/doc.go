// Package docs does what the pages of the documentation show: each page in a folder of its own, with a real bash and a real orch.
//
// The blocks of a page are taken in their order:
//   - The commands of a block "sh" are run by one bash for the whole page. One that fails fails the test.
//   - Of a block "console" those after a prompt are run, and the lines below are compared with what they print.
//   - A block without a language, or "text", is compared with what the commands above it have printed. "…" stands for any text,
//     alone on a line for any lines; ids, times and durations may differ.
//   - A block of another language whose first line is a comment with the name of a file is written to that file.
//
// All else that the test has to know is in a file beside it, the directions of the page: testdata/how-to/NAME.yaml for
// docs/how-to/NAME.md. They are about single units, which they name by the beginning of their first line:
//
//	needs: [openssl]                        # programs of test/need/programs.txt
//	setup: start_node                       # what the page presumes; testdata/prelude.sh has functions for it
//	values: {ID: $(orch list -o name)}      # what stands for placeholders of commands
//	varies: ["42"]                          # what differs from run to run in the output that the page shows
//	at:
//	  - unit: orch submit publish.yaml
//	    meanwhile: orch approve @last       # in another terminal
//	  - unit: make crash
//	    left out: it runs for minutes       # no unit is left out without a reason
package docs
