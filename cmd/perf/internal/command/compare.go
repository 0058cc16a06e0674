package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
)

const compareUsage = `rdmaperf compare shows which figures of new runs are worse than those of old ones, in files of
rdmaperf --json, --json-file or rdmaperf mesh --json. Each file is one run: the rounds of a process
share its connection and memory, so their median counts. A permutation test of the runs decides
whether a figure differs: "~" is no difference that noise does not explain. It is worse if it
differs by more than the tolerance, or if more of the runs are slow.

  rdmaperf compare [options] OLD.json NEW.json
  rdmaperf compare [options] OLD.json... -- NEW.json...

{flags}
Exit status: 0 no figure is worse, 1 the files cannot be compared, 2 wrong usage, 3 a figure is
worse, 4 no verdict: there are too few runs for a test and no --tolerance is given.
`

// exitNoVerdict is rdmaperf compare's exit code if noise may explain any difference of so few runs.
const exitNoVerdict = 4

type compareOptions struct {
	old, cur        []string // files
	tolerance, tail float64
	alone, json     bool
}

func (v *invocation) compare() *cobra.Command {
	c := &cobra.Command{Use: "compare OLD.json NEW.json", Long: compareUsage, Short: "difference between saved runs"}
	o := compareOptions{tolerance: 0.03, tail: 0.1}
	f := c.Flags()
	f.Var(percent(&o.tolerance), "tolerance", "largest accepted loss of bandwidth or median latency, as a `share` "+
		"such as 3% or 0.03; if it is given, it decides alone where there are too few runs for a test, and may take "+
		"noise for a loss")
	f.Var(percent(&o.tail), "tolerance-p99", "the same of the 99th percentile, as a `share`")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	c.Args = func(_ *cobra.Command, files []string) (err error) {
		o.alone = f.Changed("tolerance")
		o.old, o.cur, err = sides(files, f.ArgsLenAtDash())
		return err
	}
	c.Run = func(*cobra.Command, []string) { v.end(runCompare(&o, v.stdout)) }
	return c
}

// runCompare is rdmaperf compare.
func runCompare(o *compareOptions, stdout io.Writer) (int, error) {
	c, err := compareFiles(o.old, o.cur, report.Tolerance{Usual: o.tolerance, Tail: o.tail, Alone: o.alone})
	if err != nil {
		return exitFailure, err
	}
	if o.json {
		err = c.JSON(stdout)
	} else {
		err = c.Print(stdout)
	}
	switch {
	case err != nil:
		return exitFailure, err
	case c.Worse > 0:
		return exitLimit, fmt.Errorf("%d of %d figures are worse by more than %s (99th percentile: %s), or have more "+
			"slow runs", c.Worse, len(c.Figures), showPercent(o.tolerance), showPercent(o.tail))
	case c.TooFew > 0:
		return exitNoVerdict, fmt.Errorf("%d and %d files: no verdict; give %d files a side, each of a run of its "+
			"own, or --tolerance, which then decides alone", c.OldRuns, c.NewRuns, c.Needs)
	}
	return exitOK, nil
}

// sides returns the files of the old and the new runs. dash is how many come before "--", or less than 0.
func sides(files []string, dash int) (old, cur []string, err error) {
	if dash < 0 && len(files) == 2 {
		dash = 1
	}
	if dash < 0 {
		return nil, nil, fmt.Errorf("%d files; give OLD.json NEW.json, or several on a side with -- between "+
			"the sides", len(files))
	}
	if old, cur = files[:dash], files[dash:]; len(old) == 0 || len(cur) == 0 {
		return nil, nil, fmt.Errorf("%d files before -- and %d after it; give the old ones before it and the "+
			"new ones after it", len(old), len(cur))
	}
	return old, cur, nil
}

// compareFiles compares the runs in files.
func compareFiles(old, cur []string, tol report.Tolerance) (*report.Comparison, error) {
	var sides [2][]*report.Saved
	for i, names := range [][]string{old, cur} {
		for _, name := range names {
			s, err := readSaved(name)
			if err != nil {
				return nil, err
			}
			if err := s.Whole(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			sides[i] = append(sides[i], s)
		}
	}
	return report.Compare(sides[0], sides[1], tol)
}

func readSaved(name string) (*report.Saved, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := report.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}
