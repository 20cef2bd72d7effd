// Package docs runs the commands that the pages of the documentation show, each page in a folder of its own, with a real bash and a
// real orch. A file in testdata says for each page what it presumes: its directions.
package docs
