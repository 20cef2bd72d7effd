package firsthour_test

// project is a real repository, with a fault that its own tests find.
type project struct {
	// name is the name of the test. The sources are those of a Go module, or of an npm package whose test script runs programs that are
	// missing; its tests run with node alone.
	name, module, npm, script string

	readme string
	// file has the right line, which fault replaces; find is the text to search for after the test has failed.
	file, right, fault, find string
	// test is the file of a new test for a feature.
	test, asks, feature, does string
}

// projects returns the projects.
func projects() []project {
	return []project{
		goProject("fsm", "github.com/looplab/fsm", "README.md", "fsm.go", "return ok && (f.transition == nil)", "return ok && (f.transition != nil)", `func \(f \*FSM\) Can\(`),
		goProject("pflag", "github.com/spf13/pflag", "README.md", "bool.go", "*b = boolValue(v)", "*b = boolValue(!v)", `func \(b \*boolValue\) Set`),
		goProject("uritemplate", "github.com/yosida95/uritemplate/v3", "README.rst", "escape.go", "size -= 2", "size -= 1", `func pctDecode`),
		goProject("semver", "github.com/Masterminds/semver/v3", "README.md", "version.go", "return v.Compare(o) > 0", "return v.Compare(o) > 1", `func \(v \*Version\) GreaterThan\(`),
		{
			name: "process-warning", npm: "process-warning", script: "npm run test:unit && npm run test:jest && npm run test:typescript",
			readme: "README.md", file: "index.js", right: "code = code.toUpperCase()", fault: "code = code.toLowerCase()", find: `function createWarning`,
			test: "test/greet.test.js", asks: "'use strict'\n\nconst { test } = require('node:test')\nconst { greet } = require('../greet')\n\n" +
				"test('greets', t => t.assert.strictEqual(greet('Ada'), 'hello Ada'))\n",
			feature: "greet.js", does: "'use strict'\n\nmodule.exports = { greet: name => `hello ${name}` }\n",
		},
	}
}

// goProject returns the project of a Go module, whose package has its name.
func goProject(name, module, readme, file, right, fault, find string) project {
	return project{
		name: name, module: module, readme: readme, file: file, right: right, fault: fault, find: find,
		test: "greet_test.go", asks: "package " + name + "\n\nimport \"testing\"\n\nfunc TestGreet(t *testing.T) {\n" +
			"\tif got := greet(\"Ada\"); got != \"hello Ada\" {\n\t\tt.Error(got)\n\t}\n}\n",
		feature: "greet.go", does: "package " + name + "\n\nfunc greet(name string) string { return \"hello \" + name }\n",
	}
}
