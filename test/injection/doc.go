// Package injection tests that no text which a model reads lets its agent do more than it may. A node with real tools runs agents whose
// model obeys every text that it reads. The cases are in testdata.
package injection
