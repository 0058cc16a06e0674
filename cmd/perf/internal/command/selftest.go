package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/selftest"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/session"
	"github.com/pureverbs/pureverbs/internal/printable"
)

const selftestUsage = `rdmaperf selftest checks what only an adapter can show: the order of its accesses, what completions
carry, what failures report. It runs twelve steps on this host, with one device for both ends, or
two that reach each other. Each step has a limit of time. It takes no link down, and needs no root.

  rdmaperf selftest                              the first mlx5 device with an active port
  rdmaperf selftest -d a,b -x 3,3                two devices, and their GID indices
  rdmaperf selftest --out-json-file result.json  also write the result, to send back
  rdmaperf selftest --steps 3,6 --posts 1e9      the soaks alone, for longer

The result contains the host's name, its addresses and lines of its kernel's log.

{flags}
Exit status: 0 no check failed, 1 no result, 2 wrong usage, 4 a check failed.
`

type selftestOptions struct {
	selftest.Options
	json bool
	file string
}

func (v *invocation) selftest() *cobra.Command {
	c := &cobra.Command{Use: "selftest [options]", Long: selftestUsage,
		Short: "what only an adapter can show, for a first hour with one"}
	opt := selftestOptions{Options: selftest.Options{GIDs: [2]int{-1, -1}}}
	f := c.Flags()
	f.StringSliceVarP(&opt.Devices, "ib-dev", "d", nil, "RDMA `device` of both ends, or a,b: one for each")
	f.IntVarP(&opt.Port, "ib-port", "i", 0, "`port` of the devices (default: the first active one)")
	gids := f.IntSliceP("gid-index", "x", nil, "GID `index` of both ends, or a,b: one for each (default: the best one)")
	posts := f.String("posts", "1e8", "`number` of posts of the BlueFlame soak (step 3)")
	wakeups := f.String("wakeups", "1e7", "`number` of wake-ups of arm and notify (step 6)")
	f.IntVar(&opt.Lost, "lost", 1, "`seconds` after which a wake-up of step 6 counts as lost; more on a busy host")
	f.IntVar(&opt.Seconds, "limit", 600, "`seconds` that a step may take; a soak then ends early")
	f.IntSliceVar(&opt.Steps, "steps", nil, "only these `steps`, from 1 to 12 (default: all)")
	f.BoolVar(&opt.Frames, "frames", os.Getenv("PUREVERBS_HW_FRAMES") == "1",
		"also send Ethernet frames and make steering rules (step 12): two devices, root")
	f.BoolVar(&opt.json, "json", false, "print the result as one JSON object, and no table")
	f.StringVar(&opt.file, "out-json-file", "", "also write the result to this `file`")
	child := f.Bool("child", false, "be the process of a step")
	f.Lookup("child").Hidden = true
	c.Args = func(_ *cobra.Command, words []string) (err error) {
		if opt.Posts, err = count("posts", *posts); err != nil {
			return err
		}
		if opt.Wakeups, err = count("wakeups", *wakeups); err != nil {
			return err
		}
		if len(*gids) > 2 {
			return fmt.Errorf("GID index (-x): %d of them; a test has two ends", len(*gids))
		}
		for i := range opt.GIDs {
			if len(*gids) > 0 {
				opt.GIDs[i] = (*gids)[min(i, len(*gids)-1)]
			}
		}
		return opt.check(words)
	}
	c.Run = func(c *cobra.Command, _ []string) {
		if *child {
			v.end(exitOK, selftest.Child(c.Context(), os.Stdin, os.Stdout)) // the process of a step
		} else {
			v.end(runSelftest(c.Context(), opt, v.stdout))
		}
	}
	return c
}

func (o *selftestOptions) check(words []string) error {
	switch {
	case len(words) > 0:
		return fmt.Errorf("%d arguments too many: rdmaperf selftest runs on this host alone", len(words))
	case len(o.Devices) > 2:
		return fmt.Errorf("device (-d): %d names; a test has two ends", len(o.Devices))
	case o.Port < 0 || o.Port > 255:
		return fmt.Errorf("port (-i) %d, want 1 to 255", o.Port)
	case o.Lost < 1 || o.Lost > 3600:
		return fmt.Errorf("lost (--lost) %d, want 1 to 3600 seconds", o.Lost)
	case o.Seconds < 1 || o.Seconds > 86400:
		return fmt.Errorf("limit (--limit) %d, want 1 to 86400 seconds", o.Seconds)
	case slices.ContainsFunc(o.Steps, func(n int) bool { return n < 1 || n > selftest.StepCount }):
		return fmt.Errorf("steps (--steps) %v, want 1 to %d", o.Steps, selftest.StepCount)
	case o.file != "":
		return writable(o.file)
	}
	return nil
}

// runSelftest is rdmaperf selftest.
func runSelftest(ctx context.Context, opt selftestOptions, stdout io.Writer) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return exitFailure, err
	}
	start := func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, self, "selftest", "--child") }
	r, err := selftest.Run(ctx, opt.Options, program(), start, func(s *selftest.Step) {
		if !opt.json {
			selftest.Print(stdout, s)
		}
	})
	if err != nil {
		return exitFailure, err
	}
	write := func(w io.Writer) error { return printable.WriteJSON(w, r, " ") }
	if opt.json {
		err = write(stdout)
	} else {
		fmt.Fprintf(stdout, "%d checks passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
		if r.Ends[0].Emulated || r.Ends[1].Emulated {
			fmt.Fprintln(stdout, session.EmulatedNote)
		}
	}
	if opt.file != "" {
		err = errors.Join(err, save(opt.file, write))
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		return exitFailure, err
	}
	if r.Failed > 0 {
		return exitError, nil
	}
	return exitOK, nil
}

// count reads a number such as 1000 or 1e8.
func count(name, s string) (uint64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || v < 1 || v > 1e15 || v != float64(uint64(v)) {
		return 0, fmt.Errorf("%s (--%s) %.20q, want a number from 1 to 1e15", name, name, s)
	}
	return uint64(v), nil
}
