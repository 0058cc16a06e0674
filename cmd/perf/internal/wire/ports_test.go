package wire

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestListenAmong takes each port of a range once. Then the error names the range.
func TestListenAmong(t *testing.T) {
	var ports Ports
	for base := 23000; ports.From == 0; base += 4 { // a free range: others may use any
		ports = Ports{base, base + 3}
		for p := ports.From; p <= ports.To; p++ {
			ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
			if err != nil {
				ports = Ports{}
				break
			}
			ln.Close()
		}
	}
	seen := map[int]bool{}
	for range 4 {
		l, err := ListenAmong(t.Context(), TCP, "127.0.0.1", ports, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if p := l.Port(); seen[p] || p < ports.From || p > ports.To {
			t.Errorf("port %d of %+v, after %v", p, ports, seen)
		}
		seen[l.Port()] = true
	}
	_, err := ListenAmong(t.Context(), TCP, "127.0.0.1", ports, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "all 4 are in use") ||
		!strings.Contains(err.Error(), "--test-ports") {
		t.Errorf("the fifth: %v", err)
	}
	if _, err := ListenAmong(t.Context(), TCP, "192.0.2.1", ports, time.Minute); err == nil ||
		!strings.Contains(err.Error(), "no interface of this host") {
		t.Errorf("an address of another host: %v", err)
	}
	if l, err := ListenAmong(t.Context(), TCP, "127.0.0.1", Ports{}, time.Minute); err != nil || l.Port() < 1 {
		t.Errorf("any port: %v", err)
	} else {
		l.Close()
	}
}

func TestParsePorts(t *testing.T) {
	for _, bad := range []string{"", "1", "-", "1-", "-1", "0-1", "2-1", "1-65536", "a-b", "1-2-3", "1 - 2"} {
		if p, err := ParsePorts(bad); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
	if p, err := ParsePorts("18600-18699"); err != nil || p != (Ports{18600, 18699}) {
		t.Errorf("%+v, %v", p, err)
	}
}
