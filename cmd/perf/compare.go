package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
)

const compareUsage = `perf compare prints the figures of two runs, which perf --json or --out-json saved, and the
change from the old to the new ones. It exits with 3 if a figure is worse by more than the tolerance.

  perf compare [--tolerance 3%%] OLD.json NEW.json

%s
Exit status: 0 no figure is worse, 1 the files cannot be compared, 2 wrong usage, 3 a figure is worse.
`

// runCompare is perf compare.
func runCompare(args []string, stdout, stderr io.Writer) int {
	f := pflag.NewFlagSet("perf compare", pflag.ContinueOnError)
	f.Usage = func() {}
	tolerance := percent(0.03)
	f.Var(&tolerance, "tolerance", "largest accepted loss, as a `share` such as 3% or 0.03")
	f.Lookup("tolerance").DefValue = "3%"
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, compareUsage, f.FlagUsages())
		return exitOK
	case err == nil && f.NArg() != 2:
		err = fmt.Errorf("%d files; perf compare needs two: OLD.json NEW.json", f.NArg())
	}
	if err != nil {
		say(stderr, err)
		fmt.Fprintln(stderr, "perf compare --help shows the usage")
		return exitUsage
	}
	var runs [2]*report.Saved
	for i, name := range f.Args() {
		if runs[i], err = readSaved(name); err != nil {
			say(stderr, err)
			return exitFailure
		}
		if err := runs[i].Whole(); err != nil {
			say(stderr, fmt.Errorf("%s: %w", name, err))
			return exitFailure
		}
	}
	worse, err := report.Compare(stdout, runs[0], runs[1], float64(tolerance))
	switch {
	case err != nil:
		say(stderr, err)
		return exitFailure
	case worse > 0:
		say(stderr, fmt.Errorf("%d figures are worse by more than %v", worse, &tolerance))
		return exitLimit
	}
	return exitOK
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

// percent is a share, as 3% or 0.03.
type percent float64

func (p *percent) String() string { return strconv.FormatFloat(100*float64(*p), 'g', 6, 64) + "%" }
func (p *percent) Type() string   { return "percent" }

func (p *percent) Set(t string) error {
	num, isPercent := strings.CutSuffix(t, "%")
	v, err := strconv.ParseFloat(num, 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return fmt.Errorf("%q is not a share below 100%%, such as 3%% or 0.03", t)
	}
	*p = percent(v)
	return nil
}
