//go:build linux

package control

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func listen(t *testing.T, h Handler) *Server {
	t.Helper()
	s := New(h)
	if err := s.Listen(Name()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDo(t *testing.T) {
	s := listen(t, func(w []string) (any, error) {
		switch w[0] {
		case "echo":
			return w[1:], nil
		case "nothing":
			return nil, nil
		}
		return nil, errors.New("no " + w[0])
	})
	for _, tt := range []struct{ ask, want, wantErr string }{
		{"echo a  b", `["a","b"]`, ""},
		{"nothing", "true", ""},
		{"shout", "", "no shout"},
		{"echo \x1b[2J\u009b\x7f\U000e0001é", `["\u001b[2J\u009b\u007f\udb40\udc01é"]`, ""},
		{"\x1b[2J", "", `no \u001b[2J`},
	} {
		got, err := Do(s.Address(), strings.Fields(tt.ask)...)
		if string(got) != tt.want || (err == nil) != (tt.wantErr == "") || err != nil && err.Error() != tt.wantErr {
			t.Errorf("%s: %s, %v", tt.ask, got, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Do(s.Address(), "nothing"); err == nil {
		t.Error("a closed server answered")
	}
	if _, err := Do("", "nothing"); err == nil || !strings.Contains(err.Error(), Env) {
		t.Error(err)
	}
}

// TestServer_BadPeers: long lines end their connection, too many connections are refused, and the others go on.
func TestServer_BadPeers(t *testing.T) {
	s := listen(t, func([]string) (any, error) { return nil, nil })
	defer s.Close()
	c, err := net.Dial("unix", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write([]byte(strings.Repeat("x", maxLine+10)))
	if n, err := c.Read(make([]byte, 10)); err == nil {
		t.Errorf("a line without end was answered with %d bytes", n)
	}
	c.Close()
	refused := false
	for range maxConnections + 8 {
		c, err := net.Dial("unix", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("x\n"))
		if _, err := c.Read(make([]byte, 32)); err != nil {
			refused = true
		}
	}
	if !refused {
		t.Error("no connection was refused")
	}
}
