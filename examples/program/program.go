// Package program has the parts that the ports of rdma-core's programs share, so that each of them shows the calls of
// its kind and little else: the frame of a command line, the wait for the peer, objects that go together, the contents
// of messages. Its API is not stable.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/rdmacm"
)

// Main is the main function of a program. An interrupt ends the context of run. The exit status is 2 if the arguments
// are wrong, and 1 if run fails. Errors begin with the last word of the command.
func Main(command string, parse func(args []string) error, run func(*Run)) {
	words := strings.Fields(command)
	name := words[len(words)-1]
	if err := parse(os.Args[len(words):]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s -h lists the options\n", name, err, command)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends what does not return
	if err := Do(ctx, os.Stdout, run); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Run is a run of a program, or what it does for one client: a context, an output, and the objects that are open.
type Run struct {
	context.Context
	io.Writer
	Serves bool // until an interrupt, which is no failure then
	open   []func() error
}

// Do runs f, and then closes what f has opened, children before parents. Its error is that of Check, before those of
// what was closed.
func Do(ctx context.Context, out io.Writer, f func(*Run)) (err error) {
	r := &Run{Context: ctx, Writer: out}
	defer func() {
		if r.Serves && ctx.Err() != nil {
			err = nil
		}
		for _, c := range slices.Backward(r.open) {
			err = errors.Join(err, c())
		}
	}()
	defer Catch(&err)
	f(r)
	return nil
}

// OnClose has f called at the end of the run, before the functions that it was given earlier.
func (r *Run) OnClose(f func() error) { r.open = append(r.open, f) }

// Keep returns an object, which is closed at the end: that of a run, or of an *rdmacm.Conn. It may be closed earlier.
func Keep[T io.Closer](until interface{ OnClose(func() error) }, x T) T {
	until.OnClose(func() error { return x.Close() })
	return x
}

// failure is an error on its way from Check to Do or Catch.
type failure struct{ error }

// Check ends what Do runs, if there is an error, as Fatal ends a test: deferred calls run. A program that takes one
// step after the other uses it in place of a return after each.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check with a value.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Want returns an error if something is not as it must be.
func Want(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Ensure is Check of Want.
func Ensure(ok bool, format string, args ...any) { Check(Want(ok, format, args...)) }

// Catch is deferred. It makes the error of Check that of the function.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.error
	default:
		panic(r)
	}
}

// Doing is deferred. It puts what was being done in front of the error of Check.
func Doing(format string, args ...any) {
	r := recover()
	if f, ok := r.(failure); ok {
		r = failure{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), f.error)}
	}
	if r != nil {
		panic(r)
	}
}

// Flags are the flags of a program, some of them with limits.
type Flags struct {
	*pflag.FlagSet
	MaxArgs int // of other arguments
	checks  []func() error
}

// NewFlags returns no flags yet. forms are the ways to call the program, a line each.
func NewFlags(forms string) *Flags {
	f := &Flags{FlagSet: pflag.NewFlagSet("", pflag.ExitOnError)}
	f.SortFlags = false
	f.Usage = func() { fmt.Fprint(f.Output(), forms, "\n", f.FlagUsages()) }
	return f
}

// Int adds a number with limits. It returns to.
func (f *Flags) Int(to *int, name, letter string, value, least, most int, usage string) *int {
	f.IntVarP(to, name, letter, value, usage)
	f.checks = append(f.checks, func() error {
		return Want(*to >= least && *to <= most, "-%s %d: want %d to %d", letter, *to, least, most)
	})
	return to
}

// Addr adds a numeric address.
func (f *Flags) Addr(name, letter, usage string) *netip.Addr {
	text, to := f.StringP(name, letter, "", usage), new(netip.Addr)
	f.checks = append(f.checks, func() (err error) {
		*to, err = netip.ParseAddr(*text)
		return Want(err == nil || *text == "", "-%s: %w", letter, err)
	})
	return to
}

// Timeout adds --timeout. It returns to.
func (f *Flags) Timeout(to *Timeout, usage string) *Timeout {
	f.DurationVar(&to.After, "timeout", 30*time.Second, usage)
	f.checks = append(f.checks, func() error { return Want(to.After > 0, "--timeout %v: want more than 0", to.After) })
	return to
}

// Parse reads the arguments, and checks the limits. It exits for -h, and if a flag is wrong.
func (f *Flags) Parse(args []string) error {
	_ = f.FlagSet.Parse(args)
	switch n := f.NArg(); {
	case n > f.MaxArgs && f.MaxArgs == 0:
		return fmt.Errorf("%q: no arguments expected", f.Arg(0))
	case n > f.MaxArgs:
		return fmt.Errorf("%q: %d arguments, want at most %d", f.Arg(0), n, f.MaxArgs)
	}
	var err error
	for _, check := range f.checks {
		err = errors.Join(err, check())
	}
	return err
}

// Text returns the text in front of the first zero byte.
func Text(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

// Ends are the addresses of both ends. Without Server this side is the server.
type Ends struct{ Server, Bind, Port string }

// NewFlags returns -s, -b and -p.
func (e *Ends) NewFlags(command, port string) *Flags {
	f := NewFlags(command + " [options]\n" + command + " -s HOST [options]\n")
	f.StringVarP(&e.Server, "server", "s", "", "`address` of the server (default: be the server)")
	e.LocalFlags(f, port)
	return f
}

// LocalFlags adds -b and -p.
func (e *Ends) LocalFlags(f *Flags, port string) {
	f.StringVarP(&e.Bind, "bind", "b", "", "`address` to come from, or to listen on (default all)")
	f.StringVarP(&e.Port, "port", "p", port, "`port` of the server")
}

// Resolve looks up the names. A client has two addresses, the first of them only if Bind is set; a server has the first
// one, at which it listens.
func (e *Ends) Resolve() (from, to netip.AddrPort) {
	if e.Server == "" {
		return resolve(cmp.Or(e.Bind, "0.0.0.0"), e.Port), to
	}
	return resolve(e.Bind, "0"), resolve(e.Server, e.Port)
}

// resolve looks up a name, or reads an address, and a port. No name has no address.
func resolve(host, port string) netip.AddrPort {
	a := Must(net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Listen listens, and says so.
func Listen(r *Run, host, port string) *rdmacm.Listener {
	l := Keep(r, Must(rdmacm.Listen(r, net.JoinHostPort(host, port), nil)))
	fmt.Fprintf(r, "listening on %v\n", l.Addr())
	return l
}

// Serve serves the clients of l side by side. It ends when it is interrupted, as intended. It prints what fails.
func Serve(r *Run, l *rdmacm.Listener, serve func(*Run, *rdmacm.Request)) {
	var clients sync.WaitGroup
	defer clients.Wait()
	ctx, cancel := context.WithCancel(r)
	defer cancel()
	r.Serves = true
	for {
		request := Must(l.Next(ctx))
		clients.Go(func() {
			err := Do(ctx, r, func(r *Run) { serve(r, request) })
			if err != nil && ctx.Err() == nil {
				fmt.Fprintf(r, "%v: %v\n", request.RemoteAddr(), err)
			}
		})
	}
}
