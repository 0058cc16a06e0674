package program

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// object is closed with an error.
type object string

func (o object) Close() error { return errors.New("closing " + string(o)) }

// TestDo: a failed check ends f, what f has opened is closed, and its error is the first.
func TestDo(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		f    func(*Run)
		want string
	}{
		"nothing": {func(*Run) { Check(nil) }, ""},
		"closed": {func(r *Run) {
			for _, name := range []string{"a", "b"} {
				if o := Keep(r, object(name)); string(o) != name {
					t.Errorf("Keep returns %v", o)
				}
			}
		}, "closing b\nclosing a"},
		"failed": {func(r *Run) {
			Keep(r, object("a"))
			Keep(r, object("b"))
			Must(0, failed)
			t.Error("it goes on")
		}, "failed\nclosing b\nclosing a"},
		"caught": {func(r *Run) {
			Keep(r, object("a"))
			Check(func() (err error) {
				defer Catch(&err)
				defer Doing("%s %d", "step", 1)
				Check(failed)
				return nil
			}())
		}, "step 1: failed\nclosing a"},
	} {
		got := ""
		if err := Do(t.Context(), io.Discard, tt.f); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	defer func() {
		if r := recover(); r != "another panic" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = Do(t.Context(), io.Discard, func(*Run) {
		defer Doing("nothing")
		panic("another panic")
	})
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-n 7 --timeout 2s": "",
		"-n 0":              "-n 0: want 1 to 9",
		"-n 10":             "-n 10: want 1 to 9",
		"--timeout -1s":     "--timeout -1s: want more than 0",
		"-n 0 --timeout 0s": "-n 0: want 1 to 9\n--timeout 0s: want more than 0",
		"a b":               `"a": 2 arguments, want at most 1`,
	} {
		var n int
		var timeout Timeout
		f := NewFlags("")
		f.MaxArgs = 1
		f.Int(&n, "number", "n", 1, 1, 9, "")
		f.Timeout(&timeout, "")
		if err := f.Parse(strings.Fields(args)); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if want == "" && (n != 7 || timeout.After != 2*time.Second) {
			t.Errorf("%s: %d, %v", args, n, timeout.After)
		}
	}
	if err := NewFlags("").Parse([]string{"a"}); err == nil || err.Error() != `"a": no arguments expected` {
		t.Errorf("no arguments: %v", err)
	}
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct {
		ends     Ends
		from, to string
	}{
		{Ends{Port: "7"}, "0.0.0.0:7", "invalid AddrPort"},
		{Ends{Bind: "::1", Port: "7"}, "[::1]:7", "invalid AddrPort"},
		{Ends{Server: "::ffff:192.0.2.1", Port: "7"}, "invalid AddrPort", "192.0.2.1:7"},
		{Ends{Server: "192.0.2.1", Bind: "192.0.2.2", Port: "7"}, "192.0.2.2:0", "192.0.2.1:7"},
	} {
		from, to, err := resolved(&tt.ends)
		if err != nil || from.String() != tt.from || to.String() != tt.to {
			t.Errorf("%+v: %v, %v, %v", tt.ends, from, to, err)
		}
	}
	if _, _, err := resolved(&Ends{Port: "no such port"}); err == nil {
		t.Error("a port that is none was resolved")
	}
}

func resolved(e *Ends) (from, to netip.AddrPort, err error) {
	defer Catch(&err)
	from, to = e.Resolve()
	return from, to, nil
}

// TestMessages checks that each byte is checked.
func TestMessages(t *testing.T) {
	m := Messages{Kind: "datagram", Size: 300, Verify: true}
	b := make([]byte, 300)
	m.Fill(b, 5)
	if err := m.Check(b, 5); err != nil {
		t.Error(err)
	}
	for i := range b {
		b[i] ^= 1
		want := fmt.Sprintf("message 5: byte %d is %#02x, want %#02x (", i, b[i], b[i]^1)
		if err := m.Check(b, 5); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("byte %d: %v, want %q", i, err, want)
		}
		b[i] ^= 1
	}
	if err := m.Check(b, 6); err == nil || !strings.HasPrefix(err.Error(), "message 6: byte 0 is ") {
		t.Errorf("another message: %v", err)
	}
	if err := m.Check(b[1:], 5); err == nil || !strings.HasPrefix(err.Error(), "datagram 5 has 299 bytes, want 300") {
		t.Errorf("a shorter one: %v", err)
	}
	m.Verify = false
	if err := m.Check(b, 6); err != nil {
		t.Errorf("without -V: %v", err)
	}
}
