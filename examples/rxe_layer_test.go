package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Chat has each of three clients say something, which the other two read.
func TestRXE_Chat(t *testing.T) {
	r := testutil.NeedLogic(t)
	server := launch(t, "chat", "-b", r.IP[0], "-p", "21961")
	server.sees("the room is at ")
	names := []string{"Ada", "Grace", "Hedy"}
	var members []*process
	var says []*os.File
	for _, n := range names {
		in, say, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		p := launchWith(t, in, "chat", "-s", r.IP[0], "-p", "21961", "-n", n)
		_ = in.Close()
		p.sees("in the room at ")
		members, says = append(members, p), append(says, say)
	}
	// The room may know of the last member a moment after that does: what it says first is answered by nobody.
	fmt.Fprintln(says[2], "good day")
	for i := range 2 {
		members[i].sees("Hedy: good day")
	}
	fmt.Fprintln(says[0], "hello")
	for i := 1; i < 3; i++ {
		members[i].sees("Ada: hello")
	}
	fmt.Fprintln(says[1], "welcome")
	for _, i := range []int{0, 2} {
		members[i].sees("Grace: welcome")
	}
	for i, p := range members {
		_ = says[i].Close()
		p.succeeds()
	}
}

// TestRXE_KV has many clients set and get keys at a time.
func TestRXE_KV(t *testing.T) {
	r := testutil.NeedLogic(t)
	server := launch(t, "kv", "-b", r.IP[0], "-p", "21962")
	server.sees("serving at ")
	clients, count := "8", "50"
	if testutil.Full() {
		clients, count = "100", "1000"
	}
	a := launch(t, "kv", "-s", r.IP[0], "-p", "21962", "-c", clients, "-C", count)
	b := launch(t, "kv", "-s", r.IP[0], "-p", "21962", "-k", "colour", "-v", "green")
	b.succeeds()
	b = launch(t, "kv", "-s", r.IP[0], "-p", "21962", "-k", "colour")
	b.sees("green")
	b.succeeds()
	if b = launch(t, "kv", "-s", r.IP[0], "-p", "21962", "-k", "shape"); b.wait() != 1 {
		t.Errorf("a key that is not there: %v", b)
	}
	a.sees("keys set")
	a.succeeds()
}

// TestRXE_RPC has net/rpc multiply over a stream.
func TestRXE_RPC(t *testing.T) {
	r := testutil.NeedLogic(t)
	server := launch(t, "rpc", "--bind", r.IP[0], "-p", "21963")
	server.sees("serving at ")
	c := launch(t, "rpc", "-s", r.IP[0], "-p", "21963", "-a", "-12", "-b", "12")
	c.sees("-12 times 12 is -144")
	c.succeeds()
	if c = launch(t, "rpc", "-s", r.IP[0], "-p", "21963", "-a", "9223372036854775807", "-b", "2"); c.wait() != 1 {
		t.Errorf("a product that is too large: %v", c)
	}
}

// TestRXE_HTTP gets a file over HTTP, and one that is not there.
func TestRXE_HTTP(t *testing.T) {
	r := testutil.NeedLogic(t)
	dir := t.TempDir()
	text := strings.Repeat("all that is sent over RDMA\n", 5000)
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := launch(t, "http", "-b", r.IP[0], "-p", "21964", "-d", dir)
	server.sees("serving at ")
	c := launch(t, "http", "-s", r.IP[0], "-p", "21964", "-g", "text")
	c.succeeds()
	if got := c.out.String(); got != text {
		t.Errorf("%d bytes, want %d", len(got), len(text))
	}
	if c = launch(t, "http", "-s", r.IP[0], "-p", "21964", "-g", "picture"); c.wait() != 1 {
		t.Errorf("a file that is not there: %v", c)
	}
}
