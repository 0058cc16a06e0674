package cm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/examples/internal/pingpong"
)

// Main runs a program until it ends or is interrupted, and exits: with 0 after success, 1 after a
// failure, 2 if the command line was wrong.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	pingpong.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		var help *HelpError
		var usage *UsageError
		switch err := run(ctx, args, stdout); {
		case err == nil:
			return pingpong.ExitOK
		case errors.As(err, &help):
			fmt.Fprint(stdout, help.Text)
			return pingpong.ExitOK
		case errors.As(err, &usage):
			fmt.Fprintf(stderr, "%s: %v\n%[1]s -h lists the options\n", name, err)
			return pingpong.ExitUsage
		default:
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return pingpong.ExitFailed
		}
	})
}

// HelpError is returned for -h: it is not a failure, but there is nothing to run.
type HelpError struct{ Text string }

func (e *HelpError) Error() string { return "help was asked for" }

// UsageError reports an invalid command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Flags returns an empty set of flags.
func Flags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	return f
}

// Parse reads the command line; check looks at the values. forms are the ways to
// call the program, for -h.
func Parse(f *pflag.FlagSet, args []string, forms string, check func() error) error {
	return ParseArgs(f, args, forms, func(args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%q: no arguments beside the flags", args[0])
		}
		return check()
	})
}

// ParseArgs is Parse for a program that has arguments beside the flags.
func ParseArgs(f *pflag.FlagSet, args []string, forms string, check func(args []string) error) error {
	err := f.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		return &HelpError{Text: forms + "\n" + f.FlagUsages()}
	}
	if err == nil {
		err = check(f.Args())
	}
	if err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// Within returns an error if the number of a flag is out of range.
func Within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}
