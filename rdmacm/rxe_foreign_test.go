package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// theirs has the functions that a program gives the package. Each sets a function of Options, or of the connection.
var theirs = map[string]func(o *Options, f func()){
	"Options.Use": func(o *Options, f func()) {
		o.Use = func(*ibv.Device, *Options) error { f(); return nil }
	},
	"Options.Prepare": func(o *Options, f func()) { o.Prepare = func(*Conn) error { f(); return nil } },
	"Options.Confirm": func(o *Options, f func()) { o.Confirm = func(*Conn) error { f(); return nil } },
	"Options.Failed": func(o *Options, f func()) {
		o.Prepare = func(*Conn) error { return errors.New("so that it fails") }
		o.Failed = func(*Conn, error) { f() }
	},
	"Conn.OnClose": func(o *Options, f func()) {
		o.Prepare = func(c *Conn) error {
			c.OnClose(func() error { f(); return nil })
			return errors.New("so that it is closed")
		}
	},
	"Conn.OnDone": func(o *Options, f func()) {
		o.Prepare = func(c *Conn) error { c.OnDone(func(error) { f() }); return nil }
	},
}

// TestForeignList: the API has no other function of the program than those.
func TestForeignList(t *testing.T) {
	api, err := os.ReadFile("../testdata/api/rdmacm.txt")
	ok(t, err)
	var want []string
	field := regexp.MustCompile(`^type (\w+) struct, (\w+) func\(`)
	method := regexp.MustCompile(`^method \(\*?(\w+)\) (\w+)\(.*\bfunc\(`)
	for line := range strings.Lines(string(api)) {
		for _, e := range []*regexp.Regexp{field, method} {
			if m := e.FindStringSubmatch(line); m != nil {
				want = append(want, m[1]+"."+m[2])
			}
		}
	}
	slices.Sort(want)
	var got []string
	for name := range theirs {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("tested: %q\nin the API: %q", got, want)
	}
}

// TestRXE_CM_Foreign has every function of the program panic, and end its goroutine, in Dial of one address and of both
// families, and in Accept. Nothing remains of the connection, the peer hears of it, and the next one works.
func TestRXE_CM_Foreign(t *testing.T) {
	testutil.NeedLogic(t)
	testutil.Eventually(t, "nothing is left of other tests", func() bool { return len(leak.Open()) == 0 })
	failed := make(chan error, 10)
	l := closing(t, must(Listen(timeout(t), ":0", &Options{Failed: func(_ *Conn, err error) { failed <- err }}))(t))
	accepted := make(chan *Conn, 10)
	go func() {
		for {
			c, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	four := netip.AddrPortFrom(local(t).Addr(), l.Addr().Port())
	six := netip.AddrPortFrom(sixth(t), l.Addr().Port())
	open := len(leak.Open())
	works := func(t *testing.T) {
		t.Helper()
		testutil.Eventually(t, "nothing of it remains", func() bool {
			for len(accepted) > 0 { // of a dial whose function ended afterwards
				_ = (<-accepted).Close()
			}
			return len(leak.Open()) <= open
		})
		c := must(DialAddr(timeout(t), four, nil))(t)
		s := <-accepted
		if s.RemoteAddr().Port() != c.LocalAddr().Port() {
			t.Errorf("the peer has accepted %v, want %v", s.RemoteAddr(), c.LocalAddr())
		}
		ok(t, c.Close())
		ok(t, s.Close())
	}
	for name, set := range theirs {
		for what, f := range map[string]func(){"exits": runtime.Goexit, "panics": func() { panic("theirs") }} {
			if name == "Conn.OnDone" && what == "panics" {
				continue // on a goroutine of its own: it ends the program
			}
			t.Run(name+" "+what+" in Dial", func(t *testing.T) {
				var o Options
				set(&o, f)
				var c *Conn
				var err error
				how := ends(func() { c, err = DialAddr(timeout(t), four, &o) })
				if name == "Conn.OnDone" {
					ok(t, err)
					ok(t, c.Close())
				} else if how != what {
					t.Errorf("Dial %s, want that it %s", how, what)
				}
				works(t)
			})
			if what == "panics" {
				continue // on goroutines of the package: it ends the program
			}
			t.Run(name+" "+what+" in Dial of two addresses", func(t *testing.T) {
				var o Options
				set(&o, f)
				c, err := dialAny(timeout(t), "both.test", []netip.AddrPort{six, four}, &o)
				if name == "Conn.OnDone" {
					ok(t, err)
					ok(t, c.Close())
				} else if !errors.Is(err, foreign.ErrExited) {
					t.Errorf("Dial: %v", err)
				}
				works(t)
			})
			if name == "Options.Confirm" {
				continue
			}
			t.Run(name+" "+what+" in Accept", func(t *testing.T) {
				o := &Options{}
				var called atomic.Bool
				set(o, func() {
					if !called.Swap(true) {
						f()
					}
				})
				l := closing(t, must(Listen(timeout(t), netip.AddrPortFrom(local(t).Addr(), 0).String(), o))(t))
				accepting, stop := context.WithCancel(context.Background())
				defer stop()
				go func() {
					for {
						c, err := l.Accept(accepting)
						if err == nil {
							_ = c.Close()
						} else if accepting.Err() != nil {
							return
						}
					}
				}()
				fails := name == "Options.Failed" || name == "Conn.OnClose"
				for i := range 2 {
					c, err := DialAddr(timeout(t), l.Addr(), nil)
					if err == nil {
						ok(t, c.Close())
					} else if !errors.Is(err, ErrRejected) || i == 1 && !fails {
						t.Errorf("peer %d hears %v", i, err)
					}
				}
			})
		}
	}
}

// ends reports how a function ends.
func ends(f func()) string {
	ended := make(chan string, 1)
	go func() {
		how := "exits"
		defer func() {
			if r := recover(); r != nil {
				how = "panics"
			}
			ended <- how
		}()
		f()
		how = "returns"
	}()
	return <-ended
}

// TestRXE_CM_OnCloseExits has a function of OnClose end the goroutine that closes. The next Close runs the others, and
// closes the connection.
func TestRXE_CM_OnCloseExits(t *testing.T) {
	a, _ := pair(t, server(t, nil), nil)
	var ran []int
	for i := range 3 {
		a.OnClose(func() error {
			ran = append(ran, i)
			if i == 1 {
				runtime.Goexit()
			}
			return nil
		})
	}
	if how := ends(func() { _ = a.Close() }); how != "exits" {
		t.Errorf("Close %s", how)
	}
	ok(t, a.Close())
	if !slices.Equal(ran, []int{2, 1, 0}) {
		t.Errorf("ran %v, want each once, in reverse order", ran)
	}
}
