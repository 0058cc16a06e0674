package examples

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// needRsocket skips where rsockets tell nothing new: their data path is C's, and they take seconds in the VM.
func needRsocket(t *testing.T) testutil.RXE {
	t.Helper()
	rxe := testutil.NeedRXE(t)
	switch {
	case testutil.Full():
	case !rxe.Emulated && !rxe.Hardware:
		t.Skip("takes seconds in the VM")
	case os.Getenv("PUREVERBS_DATAPATH") == "direct":
		t.Skip("the data path of rsockets is C's")
	}
	return rxe
}

// TestRXERsocket_Stream goes back and forth on a stream, and by writes into the peer's memory, with every byte
// checked by both sides.
func TestRXERsocket_Stream(t *testing.T) {
	rxe := needRsocket(t)
	for _, tt := range []struct{ program, wait string }{
		{"rstream", "async"}, {"rstream", "blocking"}, {"riostream", "nonblocking"},
	} {
		for _, r := range roles {
			if tt.wait == "blocking" && r.name != "ours" && !testutil.Full() {
				continue
			}
			t.Run(tt.program+"/"+tt.wait+"/"+r.name, func(t *testing.T) {
				server := []string{tt.program, "-b", rxe.IP[0]}
				client := []string{tt.program, "-s", rxe.IP[0]}
				// A stock client that is to wait with rpoll fails if the server ends before it has read all.
				if !r.stockServer {
					server = append(server, "-T", tt.wait)
				}
				if !r.stockClient {
					client = append(client, "-T", tt.wait, "-b", rxe.IP[1])
				}
				s, c := pair(t, r.stockServer, r.stockClient, server, client, "-p", nextPort(), "-T", "verify", "-S",
					"5000", "-C", "10", "-I", "7")
				c.succeeds()
				s.succeeds()
				for i, p := range []*process{s, c} {
					if i == 0 && r.stockServer || i == 1 && r.stockClient {
						p.says("custom    4.8k    10      7       683k ")
					} else {
						p.says("140 transfers of 5000 bytes in ", "every byte as it should be")
					}
				}
			})
		}
	}
}

// TestRXERsocket_RCopy copies a file, and writes nowhere else than it may.
func TestRXERsocket_RCopy(t *testing.T) {
	rxe := needRsocket(t)
	source := filepath.Join(t.TempDir(), "source")
	want := make([]byte, 1_000_003)
	random := rand.NewChaCha8([32]byte{2})
	_, _ = random.Read(want)
	if err := os.WriteFile(source, want, 0o640); err != nil {
		t.Fatal(err)
	}
	for _, r := range roles {
		t.Run(r.name, func(t *testing.T) {
			dir := t.TempDir()
			server := []string{"rcopy"}
			if !r.stockServer {
				server = append(server, "-d", dir)
			}
			name := "below" // to a stock server from where it runs
			if r.stockServer {
				name = filepath.Join(dir, name)
			}
			client := []string{"rcopy", source, rxe.IP[0] + ":" + name}
			s, c := pair(t, r.stockServer, r.stockClient, server, client, "-p", nextPort())
			c.succeeds()
			if got, err := os.ReadFile(filepath.Join(dir, "below")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v; want %d bytes, the same", len(got), err, len(want))
			}
			if r.stockServer {
				return // it never ends by itself
			}
			if r.name == "ours" {
				port := s.cmd.Args[len(s.cmd.Args)-1]
				launch(t, "rcopy", source, rxe.IP[0]+":../above", "-p", port).fails("../above: the server says: ")
				empty := filepath.Join(t.TempDir(), "empty")
				if err := os.WriteFile(empty, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				launch(t, "rcopy", empty, rxe.IP[0], "-p", port).succeeds()
				if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || info.Size() != 0 {
					t.Errorf("an empty file: %v, %v", info, err)
				}
			}
			s.ends()
			s.says(fmt.Sprintf("%d bytes of %[1]d", len(want)))
		})
	}
}

// TestRXERsocket_CheckIsReal shows that -T verify finds other bytes.
func TestRXERsocket_CheckIsReal(t *testing.T) {
	rxe := needRsocket(t)
	for _, tt := range []struct{ program, want string }{
		{"rstream", "rstream: the first 16 bytes: byte 1 is 0x00, want 0x01"},
		{"riostream", "riostream: iteration 0: byte 1 is 0x00, want 0x01"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			s, c := pair(t, false, false, []string{tt.program, "-T", "v"}, []string{tt.program, "-s", rxe.IP[0]}, "-p",
				nextPort())
			s.fails(tt.want)
			c.fails(tt.program + ": ") // the connection ends
		})
	}
}

// TestRXERsocket_Ends ends servers that nobody came to, and clients without a server.
func TestRXERsocket_Ends(t *testing.T) {
	rxe := needRsocket(t)
	for _, program := range []string{"rstream", "riostream"} {
		t.Run(program+"/killed", func(t *testing.T) {
			start := packets(t)
			s, c := pair(t, false, false, []string{program}, []string{program, "-s", rxe.IP[0], "-b", rxe.IP[1]}, "-p",
				nextPort(), "-I", "100000000")
			for packets(t) < start+50 { // in the midst of it
				select {
				case <-c.ended:
					t.Fatalf("the game is over\n%v", c)
				case <-time.After(5 * time.Millisecond):
				}
			}
			s.cmd.Process.Kill()
			c.fails(program + ": ")
			if e := c.errs.String(); strings.Contains(e, "nothing for") {
				t.Errorf("it has not seen the end of the connection\n%v", c)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		s := launch(t, "rstream", "-p", nextPort())
		s.sees("listening on ")
		_ = s.cmd.Process.Signal(os.Interrupt)
		s.fails("rstream: ")
	})
	t.Run("nobody listens", func(t *testing.T) {
		launch(t, "rstream", "-s", rxe.IP[0], "-p", nextPort()).fails("rstream: rconnect", "connection refused")
	})
	t.Run("no datagrams on RoCE", func(t *testing.T) {
		launch(t, "udpong", "-s", rxe.IP[0], "-p", nextPort()).fails("udpong: rconnect ", "need InfiniBand")
	})
}
