// Package program has the parts that the ports of rdma-core's programs share, so that each of them shows the calls of
// its kind and little else: the frame of a command line, the wait for the peer, objects that go together, the contents
// of messages. Its API is not stable.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// Main is the main function of a program. An interrupt ends the context of run. The exit status is 2 if the arguments
// are wrong, and 1 if run fails. Errors begin with the last word of the command.
func Main[O any](command string, args []string, parse func(args []string) (O, error),
	run func(context.Context, O, io.Writer) error) {
	name := command[strings.LastIndex(command, " ")+1:]
	o, err := parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s -h lists the options\n", name, err, command)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Flags are the flags of a program, some of them with limits.
type Flags struct {
	*pflag.FlagSet
	checks []func() error
}

// NewFlags returns no flags yet. forms are the ways to call the program, a line each.
func NewFlags(forms string) *Flags {
	f := &Flags{FlagSet: pflag.NewFlagSet("", pflag.ExitOnError)}
	f.SortFlags = false
	f.Usage = func() { fmt.Fprint(f.Output(), forms, "\n", f.FlagUsages()) }
	return f
}

// Int adds a number with limits.
func (f *Flags) Int(to *int, name, letter string, value, least, most int, usage string) {
	f.IntVarP(to, name, letter, value, usage)
	f.checks = append(f.checks, func() error { return Within("-"+letter, *to, least, most) })
}

// Addr adds a numeric address.
func (f *Flags) Addr(to *netip.AddrPort, name, letter, usage string) {
	text := f.StringP(name, letter, "", usage)
	f.checks = append(f.checks, func() error {
		if *text == "" {
			return nil
		}
		ip, err := netip.ParseAddr(*text)
		if err != nil {
			return fmt.Errorf("-%s: %w", letter, err)
		}
		*to = netip.AddrPortFrom(ip, 0)
		return nil
	})
}

// Timeout adds --timeout.
func (f *Flags) Timeout(to *Timeout, usage string) {
	f.DurationVar(&to.After, "timeout", 30*time.Second, usage)
	f.checks = append(f.checks, func() error {
		if to.After <= 0 {
			return fmt.Errorf("--timeout %v: want more than 0", to.After)
		}
		return nil
	})
}

// Parse reads the arguments, and checks the limits. It exits for -h, and if a flag is wrong.
func (f *Flags) Parse(args []string, mostArgs int) error {
	_ = f.FlagSet.Parse(args)
	switch n := f.NArg(); {
	case n > mostArgs && mostArgs == 0:
		return fmt.Errorf("%q: no arguments expected", f.Arg(0))
	case n > mostArgs:
		return fmt.Errorf("%q: %d arguments, want at most %d", f.Arg(0), n, mostArgs)
	}
	var err error
	for _, check := range f.checks {
		err = errors.Join(err, check())
	}
	return err
}

// Within returns an error if the number of a flag is out of its limits.
func Within(flag string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s %d: want %d to %d", flag, n, least, most)
	}
	return nil
}

// Ends are the addresses of both ends. Without Server this side is the server.
type Ends struct{ Server, Bind, Port string }

// Flags adds -s, -b and -p.
func (e *Ends) Flags(f *Flags, port string) {
	f.StringVarP(&e.Server, "server", "s", "", "`address` of the server (default: be the server)")
	e.LocalFlags(f, port)
}

// LocalFlags adds -b and -p.
func (e *Ends) LocalFlags(f *Flags, port string) {
	f.StringVarP(&e.Bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.StringVarP(&e.Port, "port", "p", port, "`port` of the server")
}

// Resolve looks up the names. A client has two addresses, the first of them only if Bind is set; a server has the first
// one, at which it listens.
func (e *Ends) Resolve(ctx context.Context) (from, to netip.AddrPort, err error) {
	if e.Server == "" {
		from, err = resolve(ctx, e.Bind, e.Port)
		return from, to, err
	}
	if to, err = resolve(ctx, e.Server, e.Port); err == nil && e.Bind != "" {
		from, err = resolve(ctx, e.Bind, "0")
	}
	return from, to, err
}

// resolve looks up a name, or reads an address, and a port. An empty host is any address of this machine.
func resolve(ctx context.Context, host, port string) (netip.AddrPort, error) {
	ip := netip.IPv4Unspecified()
	if host != "" {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, err
		}
		ip = ips[0].Unmap()
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return netip.AddrPortFrom(ip, uint16(n)), err
}
