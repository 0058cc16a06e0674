package examples

import (
	"fmt"
	"io"
	"net/http"
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
	// What a member says last arrives, although the member ends at once.
	fmt.Fprintln(says[0], "goodbye")
	_ = says[0].Close()
	members[0].succeeds()
	for i := 1; i < 3; i++ {
		members[i].sees("Ada: goodbye")
		_ = says[i].Close()
		members[i].succeeds()
	}
	server.ends()
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
	server.ends()
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
	server.ends()
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
	server.ends()
}

// TestRXE_Proxy gets a file by TCP from a proxy, which gets it by RDMA.
func TestRXE_Proxy(t *testing.T) {
	r := testutil.NeedLogic(t)
	dir := t.TempDir()
	text := strings.Repeat("half of the way over RDMA\n", 5000)
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := launch(t, "http", "-b", r.IP[0], "-p", "21965", "-d", dir)
	server.sees("serving at ")
	proxy := launch(t, "proxy", "-l", "127.0.0.1:0", "-s", r.IP[0]+":21965")
	_, addr, _ := strings.Cut(proxy.sees("serving at "), "serving at ")
	client := http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	for _, tt := range []struct {
		name string
		code int
		want string
	}{{"text", 200, text}, {"picture", 404, "404 page not found\n"}} {
		resp, err := client.Get("http://" + addr + "/" + tt.name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.code || string(body) != tt.want {
			t.Errorf("%s: %s, %d bytes, %v", tt.name, resp.Status, len(body), err)
		}
	}
	server.ends()
	if resp, err := client.Get("http://" + addr + "/text"); err != nil || resp.StatusCode != 502 {
		t.Errorf("without a server: %v, %v", resp, err)
	}
	proxy.ends()
}

// TestRXE_TLS sends a line and gets it back, but not from a server with another certificate.
func TestRXE_TLS(t *testing.T) {
	r := testutil.NeedLogic(t)
	cert := filepath.Join(t.TempDir(), "cert")
	server := launch(t, "tls", "-b", r.IP[0], "-p", "21966", "-c", cert)
	server.sees("serving at ")
	c := launch(t, "tls", "-s", r.IP[0], "-p", "21966", "-c", cert, "-m", "a secret")
	c.sees("a secret")
	c.sees("TLS 1.3 over rdma ")
	c.succeeds()
	other := launch(t, "tls", "-b", r.IP[0], "-p", "21967", "-c", cert)
	other.sees("serving at ")
	launch(t, "tls", "-s", r.IP[0], "-p", "21966", "-c", cert).fails("tls: ", "certificate")
	server.ends()
	other.ends()
}

// TestRXE_PubSub has two subscribers of one topic, one of another, and a publisher.
func TestRXE_PubSub(t *testing.T) {
	r := testutil.NeedLogic(t)
	broker := launch(t, "pubsub", "-b", r.IP[0], "-p", "21968")
	broker.sees("serving at ")
	run := func(args ...string) *process {
		return launch(t, append([]string{"pubsub", "-s", r.IP[0], "-p", "21968"}, args...)...)
	}
	a, b := run("-t", "sports", "-n", "1"), run("-t", "sports", "-n", "1")
	weather := run("-t", "weather")
	publish := func(topic, text string, want int) {
		t.Helper()
		testutil.Eventually(t, "all have subscribed", func() bool {
			p := run("-t", topic, "-m", text)
			p.succeeds()
			return p.out.String() == fmt.Sprintf("sent to %d subscribers\n", want)
		})
	}
	publish("weather", "rain", 1)
	weather.sees("weather: rain")
	weather.ends()
	publish("weather", "sun", 0)
	// Either may get a message before the other has subscribed, and ends after one.
	for _, p := range []*process{a, b} {
		for p.running() {
			run("-t", "sports", "-m", "goal").succeeds()
		}
		p.succeeds()
		p.says("sports: goal\n")
	}
	broker.ends()
}

// TestRXE_KVCache writes two caches at a time, and refuses what is too large.
func TestRXE_KVCache(t *testing.T) {
	r := testutil.NeedLogic(t)
	server := launch(t, "kvcache", "-b", r.IP[0], "-p", "21969")
	server.sees("serving at ")
	run := func(layers, size string) *process {
		return launch(t, "kvcache", "-s", r.IP[0], "-p", "21969", "-l", layers, "-S", size)
	}
	a, b := run("40", "65536"), run("1", "5000001")
	a.sees("2621440 bytes written over rdma ")
	b.sees("5000001 bytes written over rdma ")
	a.succeeds()
	b.succeeds()
	run("65", "1048576").fails("kvcache: ", "more than it lends")
	server.ends()
	server.says("40 layers", "1 layers", "2621440 bytes, SHA-256 ", "5000001 bytes, SHA-256 ")
}
