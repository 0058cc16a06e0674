package examples

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// say connects, says something and closes.
func say(addr, text string) error {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = c.Write([]byte(text))
	return err
}

// heard is a piece of a conversation.
type heard struct {
	client bool
	text   string
}

// eavesdrop passes one connection on to a server, and hands out what each side
// said: as many bytes in a row as it said before the other spoke.
func eavesdrop(t *testing.T, server string) (addr string, talk <-chan []heard) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	result := make(chan []heard, 1)
	go func() {
		defer close(result)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		s, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer s.Close()
		pieces := make(chan heard)
		pass := func(from, to net.Conn, client bool) {
			from.SetReadDeadline(time.Now().Add(patience))
			b := make([]byte, 64<<10)
			for {
				n, err := from.Read(b)
				pieces <- heard{client, string(b[:n])}
				if err != nil {
					to.(*net.TCPConn).CloseWrite()
					pieces <- heard{client, "(closes)"}
					return
				}
				to.Write(b[:n])
			}
		}
		go pass(c, s, true)
		go pass(s, c, false)
		var all []heard
		for ends := 0; ends < 2; {
			p := <-pieces
			switch last := len(all) - 1; {
			case p.text == "(closes)":
				ends++
				all = append(all, p)
			case p.text == "":
			case last >= 0 && all[last].client == p.client:
				all[last].text += p.text
			default:
				all = append(all, p)
			}
		}
		result <- all
	}()
	return l.Addr().String(), result
}

// TestRXEExchange_Stock listens in on two stock tools: it is where package
// pingpong's description of the wire comes from.
func TestRXEExchange_Stock(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	for _, tt := range []struct {
		tool  string
		flags []string
		used  int
		total int
	}{
		{"ibv_rc_pingpong", nil, 1, 1},
		{"ibv_uc_pingpong", nil, 1, 1},
		{"ibv_ud_pingpong", nil, 1, 1},
		{"ibv_srq_pingpong", []string{"-q", "3"}, 3, 256},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			port := nextPort()
			flags := append([]string{"-n", "5", "-r", "10", "-g", fmt.Sprint(rxe.GID)}, tt.flags...)
			s := launch(t, append([]string{tt.tool, "-d", rxe.Dev[0], "-p", port}, flags...)...)
			listens(t, s, port)
			addr, talk := eavesdrop(t, "127.0.0.1:"+port)
			_, between, _ := strings.Cut(addr, ":")
			c := launch(t, append([]string{tt.tool, "-d", rxe.Dev[1], "-p", between, "127.0.0.1"}, flags...)...)
			c.succeeds()
			s.succeeds()

			address := func(ip string) string {
				return fmt.Sprintf(`(0000:[0-9a-f]{6}:[0-9a-f]{6}:%s\x00){%d}(0000:000000:000000:%032d\x00){%d}`, ip,
					tt.used, 0, tt.total-tt.used)
			}
			want := []struct {
				client bool
				text   string
			}{
				{true, address(mapped(rxe.IP[1]))},
				{false, address(mapped(rxe.IP[0]))},
				{true, "done\x00"},
			}
			got := <-talk
			for i, w := range want {
				if i >= len(got) || got[i].client != w.client ||
					!regexp.MustCompile("^"+w.text+"$").MatchString(got[i].text) {
					t.Fatalf("piece %d of %+v, want %v %s", i, got, w.client, w.text)
				}
			}
			for _, h := range got[len(want):] {
				if h.text != "(closes)" {
					t.Errorf("after that: %q", h.text)
				}
			}
		})
	}
}

// mapped matches the hexadecimal digits of an IPv4 address's GID.
func mapped(ip string) string {
	a := netip.MustParseAddr(ip).As4()
	return fmt.Sprintf("0{20}ffff%x", a[:])
}
