package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/report"
)

const reportUsage = `rdmaperf report writes one HTML file with charts and tables of saved runs (rdmaperf --json) and
meshes (rdmaperf mesh --json). The file needs only a browser.

  rdmaperf report [-o report.html] FILE.json...

{flags}
Exit status: 0 success, 1 a file cannot be read or written, 2 wrong usage.
`

func (v *invocation) report() *cobra.Command {
	c := &cobra.Command{Use: "report [-o report.html] FILE.json...", Long: reportUsage,
		Short: "charts of saved runs, as one HTML file"}
	out := c.Flags().StringP("output", "o", "report.html", "output `file`; -: standard output")
	c.Args = func(_ *cobra.Command, files []string) error {
		switch n := len(files); {
		case n == 0:
			return errors.New("no files; rdmaperf report needs files that rdmaperf --json wrote")
		case n > report.MostRuns:
			return fmt.Errorf("%d files; rdmaperf report shows at most %d", n, report.MostRuns)
		case *out == "":
			return errors.New("output file (-o) has no name")
		}
		return nil
	}
	c.Run = func(_ *cobra.Command, files []string) { v.end(exitOK, runReport(files, *out, v.stdout)) }
	return c
}

// runReport is rdmaperf report.
func runReport(files []string, out string, stdout io.Writer) error {
	runs := make([]report.Named, len(files))
	for i, name := range files {
		s, err := readSaved(name)
		if err == nil {
			if err = s.Drawable(); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		if err == nil && sameFile(name, out) {
			err = fmt.Errorf("%s: is an input; give another output file (-o)", name)
		}
		if err != nil {
			return err
		}
		runs[i] = report.Named{Name: filepath.Base(name), Saved: s}
	}
	rename(runs, files)
	write := func(w io.Writer) error { return report.HTML(w, runs, program(), time.Now()) }
	if out == "-" {
		return write(stdout)
	}
	return save(out, write)
}

// rename gives runs whose files have the same name the parts of their paths in which they differ.
func rename(runs []report.Named, paths []string) {
	times := map[string][]int{}
	for i, r := range runs {
		times[r.Name] = append(times[r.Name], i)
	}
	for _, same := range times {
		if len(same) == 1 {
			continue
		}
		parts := lists.Map(same, func(i int) []string {
			return strings.Split(filepath.ToSlash(filepath.Clean(paths[i])), "/")
		})
		common := 0
		for differs := false; !differs; {
			for _, p := range parts {
				differs = differs || common >= len(p)-1 || p[common] != parts[0][common]
			}
			if !differs {
				common++
			}
		}
		for k, i := range same {
			runs[i].Name = strings.Join(parts[k][common:], "/")
		}
	}
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
