package examples

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSIW_RPing runs the test of rping, with stock programs in both roles, on iWARP.
func TestSIW_RPing(t *testing.T) {
	testutil.NeedSIW(t)
	TestRXECM_RPing(t)
}

// TestSIW_Ucmatose sends messages both ways, with stock programs in both roles.
func TestSIW_Ucmatose(t *testing.T) {
	rxe := testutil.NeedSIW(t)
	for _, r := range roles {
		t.Run(r.name, func(t *testing.T) {
			cmatose(t, r, []string{"ucmatose", "-b", rxe.IP[0]}, []string{"ucmatose", "-s", rxe.IP[0]}, "-S", "3000")
		})
	}
}

// TestSIW_AnyAddress has servers that listen at [::].
func TestSIW_AnyAddress(t *testing.T) {
	rxe := testutil.NeedSIW(t)
	for _, r := range roles[:2] {
		t.Run("rping/"+r.name, func(t *testing.T) {
			// A message that comes when siw has replied to the request, and not yet given the socket to the queue pair,
			// stays in the socket until the next one comes. A client whose first message that is waits for ever.
			const unseen = "rping: ping 0: nothing for "
			for try := 1; ; try++ {
				s, c := pair(t, false, r.stockClient, []string{"rping", "-s", "-a", "::"},
					[]string{"rping", "-c", "-a", rxe.IP[0], "-C", "10"}, "-p", nextPort(), "-v", "-V")
				c.wait()
				if s.wait(); try < 5 && strings.Contains(s.errs.String(), unseen) {
					t.Logf("try %d: siw did not see the first message", try)
					continue
				}
				c.succeeds()
				if s.code != 0 {
					t.Logf("%v", c)
				}
				s.succeeds()
				break
			}
		})
		t.Run("ucmatose/"+r.name, func(t *testing.T) {
			cmatose(t, r, []string{"ucmatose"}, []string{"ucmatose", "-s", rxe.IP[0]})
		})
	}
}

// cmatose runs ucmatose at both ends. In its protocol the side that accepts sends first, which iWARP forbids: siw does
// not connect if the message comes too early, as also happens between stock programs.
func cmatose(t *testing.T, r role, server, client []string, flags ...string) {
	t.Helper()
	const early = "CONNECT_ERROR, error: -22"
	for try := 1; ; try++ {
		s, c := pair(t, r.stockServer, r.stockClient, server, client, append(flags, "-C", "10", "-p", nextPort())...)
		if c.wait(); try < 5 && strings.Contains(c.out.String(), early) {
			t.Logf("try %d: a message came too early", try)
			s.wait()
			continue
		}
		c.succeeds()
		s.succeeds()
		return
	}
}
