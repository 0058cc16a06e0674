// Devinfo shows the RDMA devices of this host: identity, limits, ports, GIDs and
// partition keys, as a tree or as JSON.
//
//	devinfo            # what one usually wants to know
//	devinfo -v         # everything
//	devinfo --json     # everything, for programs
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	device  string
	port    int // 0: all
	list    bool
	verbose bool
	json    bool
}

func run(args []string, stdout, stderr io.Writer) int {
	var opt options
	f := pflag.NewFlagSet("devinfo", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.StringVarP(&opt.device, "ib-dev", "d", "", "only this `device`")
	f.IntVarP(&opt.port, "ib-port", "i", 0, "only this `port`")
	f.BoolVarP(&opt.list, "list", "l", false, "only the names")
	f.BoolVarP(&opt.verbose, "verbose", "v", false, "all attributes")
	f.BoolVar(&opt.json, "json", false, "one JSON object, with all attributes")
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "devinfo [options]\n\n%s", f.FlagUsages())
		return 0
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: name a device with -d", f.Arg(0))
	case err == nil && (opt.port < 0 || opt.port > 255 || f.Changed("ib-port") && opt.port == 0):
		err = fmt.Errorf("-i %d: want 1 to 255", opt.port)
	}
	if err != nil {
		fmt.Fprintf(stderr, "devinfo: %v\ndevinfo -h lists the options\n", err)
		return 2
	}

	r, err := look(opt)
	// Show the report even if a device could not be opened.
	if r != nil {
		err = errors.Join(err, show(stdout, r, opt))
	}
	if err != nil {
		fmt.Fprintln(stderr, "devinfo:", escape(err.Error(), "\n"))
		return 1
	}
	return 0
}

func show(out io.Writer, r *report, opt options) error {
	if opt.json {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, escape(string(text), "\n"))
		return err
	}
	if opt.list {
		for _, d := range r.Devices {
			if _, err := fmt.Fprintln(out, escape(d.Name, "")); err != nil {
				return err
			}
		}
		return nil
	}
	return tree(out, r, opt.verbose)
}
