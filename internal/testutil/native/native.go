// Package native lists the tests that the native control path cannot pass, and why. Package testutil skips them, and
// test/tiers runs them nevertheless to see that the rows are still right.
package native

import (
	"regexp"
	"strings"
)

// Env names the environment variable of package ibv that selects the control path.
const Env = "PUREVERBS_CONTROL"

// RowsEnv names the environment variable with which the tests in Rows run instead of skipping.
const RowsEnv = "PUREVERBS_TEST_NATIVE_ROWS"

// Reason is why a test does not run on the native control path. It fails there, and what it prints matches Shows.
type Reason struct {
	Text  string
	Shows *regexp.Regexp
}

// Skipped begins the text of a skip. The text of the reason follows.
const Skipped = "not on the native control path: "

// Row is a test that does not run on the native control path.
type Row struct {
	Dir  string // of its package
	Test string // its name, with slashes a regular expression for those of subtests
	Reason

	full *regexp.Regexp
}

// NewRow returns a row.
func NewRow(dir, test string, r Reason) Row {
	return Row{dir, test, r, regexp.MustCompile("^(" + test + ")$")}
}

// Is reports whether the row is about a test.
func (r *Row) Is(test string) bool { return r.full.MatchString(test) }

// group lists tests of a package with the same reason.
type group struct {
	dir    string
	reason Reason
	tests  string // their names, with blanks between them
}

func because(text, shows string) Reason { return Reason{text, regexp.MustCompile(shows)} }

// library is in the errors of what is missing.
const library = ` is not supported: it needs libibverbs: PUREVERBS_CONTROL=library`

var (
	needsOps     = because("needs DataPathOps", `the ops data path \(.*\)`+library)
	needsC       = because("needs a C object", library)
	needsMLX5    = because("is about the format of libmlx5", library)
	needsEFA     = because("needs libefa", `efadv [a-z]+ .*`+library)
	needsLibrary = because("is about the files of libibverbs and its drivers", `no error, want|: <nil>`)
)

// Rows lists the tests.
var Rows = rows()

// Of returns the reason why a test of the package in a folder does not run, nil if it does.
func Of(dir, test string) *Reason {
	for i := range Rows {
		if Rows[i].Dir == dir && Rows[i].Is(test) {
			return &Rows[i].Reason
		}
	}
	return nil
}

func rows() (list []Row) {
	for _, g := range groups {
		for test := range strings.FieldsSeq(g.tests) {
			list = append(list, NewRow(g.dir, test, g.reason))
		}
	}
	return list
}
