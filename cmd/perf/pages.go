package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
)

const reportUsage = `perf report writes one HTML file with charts and tables of saved runs (perf --json) and
meshes (perf mesh --json). The file needs only a browser.

  perf report [-o report.html] FILE.json...

%s
Exit status: 0 success, 1 a file cannot be read or written, 2 wrong usage.
`

// runReport is perf report.
func runReport(args []string, stdout, stderr io.Writer) int {
	f := pflag.NewFlagSet("perf report", pflag.ContinueOnError)
	f.Usage = func() {}
	out := f.StringP("output", "o", "report.html", "output `file`; -: standard output")
	err := f.Parse(args)
	switch n := f.NArg(); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, reportUsage, f.FlagUsages())
		return exitOK
	case err != nil:
	case n == 0:
		err = errors.New("no files; perf report needs files that perf --json wrote")
	case n > report.MostRuns:
		err = fmt.Errorf("%d files; perf report shows at most %d", n, report.MostRuns)
	case *out == "":
		err = errors.New("output file (-o) has no name")
	}
	if err != nil {
		say(stderr, err)
		fmt.Fprintln(stderr, "perf report --help shows the usage")
		return exitUsage
	}
	runs := make([]report.Named, f.NArg())
	for i, name := range f.Args() {
		s, err := readSaved(name)
		if err == nil {
			if err = s.Drawable(); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		if err == nil && sameFile(name, *out) {
			err = fmt.Errorf("%s: is an input; give another output file (-o)", name)
		}
		if err != nil {
			say(stderr, err)
			return exitFailure
		}
		runs[i] = report.Named{Name: filepath.Base(name), Saved: s}
	}
	rename(runs, f.Args())
	write := func(w io.Writer) error { return report.HTML(w, runs, program(), time.Now()) }
	if *out == "-" {
		err = write(stdout)
	} else {
		err = save(*out, write)
	}
	if err != nil {
		say(stderr, err)
		return exitFailure
	}
	return exitOK
}

// rename gives runs their whole paths where the last parts are the same.
func rename(runs []report.Named, paths []string) {
	times := map[string]int{}
	for _, r := range runs {
		times[r.Name]++
	}
	for i, r := range runs {
		if times[r.Name] > 1 {
			runs[i].Name = paths[i]
		}
	}
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
