package rdma

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

var allCalls = []call{callDial, callDialStream, callDialPacket, callListen, callListenStream, callListenPacket,
	callPipe}

// optionSamples set each field of Options to a value that works.
var optionSamples = map[string]any{
	"Engine":      (*Engine)(nil), // set by the test
	"MaxMessage":  1 << 20,
	"KeepAlive":   2 * time.Second,
	"Leases":      &LeaseOptions{},
	"Linger":      3 * time.Second,
	"PrivateData": []byte("mine"),
	"Fallback":    true,
	"Authorize":   func(context.Context, ConnRequest) error { return nil },
	"LocalAddr":   netip.MustParseAddrPort("127.0.0.1:0"), // or as the test says
	"Timeout":     time.Minute,
	"Backlog":     2,
	"ReuseAddr":   true,
	"AFOnly":      true,
	"TOS":         uint8(32),
	"AckTimeout":  500 * time.Millisecond,
	"RetryCount":  3,
	"Logger":      slog.New(slog.DiscardHandler),
}

// withOption returns Options of which one field is set.
func withOption(t *testing.T, field string, value any) *Options {
	t.Helper()
	o := new(Options)
	v := reflect.ValueOf(value)
	if !v.IsValid() || v.IsZero() {
		t.Fatalf("no value for the field %s", field)
	}
	reflect.ValueOf(o).Elem().FieldByName(field).Set(v)
	return o
}

// TestOptionsOfCalls: every field of Options is in the table of its calls, and a field that is set applies to the call,
// or is an error that names both, before anything else is tried.
func TestOptionsOfCalls(t *testing.T) {
	var names []string
	for i := range reflect.TypeFor[Options]().NumField() {
		if f := reflect.TypeFor[Options]().Field(i); f.IsExported() {
			names = append(names, f.Name)
		}
	}
	table := make(map[string][]call)
	for _, u := range new(Options).uses() {
		if u.set || len(u.of) == 0 || !slices.Contains(names, u.field) || table[u.field] != nil {
			t.Errorf("the table has %+v", u)
		}
		table[u.field] = u.of
	}
	a, b, err := Pipe(nil)
	ok(t, err)
	defer b.CloseNow()
	defer a.CloseNow()
	const nobody = "127.0.0.1:1"
	short, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range names {
		if table[name] == nil {
			t.Errorf("Options.%s is not in the table", name)
			continue
		}
		value := optionSamples[name]
		if name == "Engine" {
			value = a.Engine()
		}
		o := withOption(t, name, value)
		for _, c := range allCalls {
			var err error
			switch c {
			case callDial:
				_, err = Dial(short, nobody, o)
			case callDialStream:
				_, err = DialStream(short, nobody, o)
			case callDialPacket:
				_, err = DialPacket(short, nobody, o)
			case callListen:
				_, err = Listen(short, "no port", o)
			case callListenStream:
				_, err = ListenStream(short, "no port", o)
			case callListenPacket:
				_, err = ListenPacket(short, "no port", o)
			case callPipe:
				var x, y *Conn
				if x, y, err = Pipe(o); err == nil {
					echo(t, x, y)
					_, _ = x.CloseNow(), y.CloseNow()
				} else if slices.Contains(table[name], c) {
					t.Errorf("Pipe with %s: %v", name, err)
				}
			}
			refusal(t, c, name, err, !slices.Contains(table[name], c))
		}
	}
	ok(t, CloseIdle())
}

// refusal checks whether err is the refusal of a field by a call.
func refusal(t *testing.T, c call, field string, err error, want bool) {
	t.Helper()
	var arg *ibv.ArgError
	is := errors.As(err, &arg) && arg.Arg == field && strings.Contains(arg.Want, "of "+string(c)+",") && arg.Got != ""
	if is != want {
		t.Errorf("%s with %s: %v; refused %v, want %v", c, field, err, is, want)
	}
}
