package command

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestRXE_ServeStock: rdmaperf serve has servers for stock clients, which serve one after the other, whoever else
// comes.
func TestRXE_ServeStock(t *testing.T) {
	vm := needOnce(t)
	t.Setenv("RDMAPERF_TOKEN", "")
	reads, lats := freshPort(), freshPort()
	srv := start(t, "rdmaperf", "serve", "-d", vm.Dev[0],
		"--stock", "read bw -s 1M --timeout 5 -p "+reads, "--stock", "send lat -s 64 -n 20 -p "+lats)
	listening(t, srv, reads)
	listening(t, srv, lats)
	stranger := func(say string) {
		t.Helper()
		c, err := net.Dial("tcp", net.JoinHostPort(vm.Host[0], reads))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
	}
	client := func(port, program string, args ...string) *proc {
		return start(t, program, append(args, "-F", "-d", vm.Dev[1], "-p", port, vm.Host[0])...)
	}
	stranger("")
	stranger("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	// Two at once: one waits. Of read the server need not know the size.
	clients := []*proc{client(reads, "ib_read_bw", "-s", "4096", "-n", "50"),
		client(reads, "ib_read_bw", "-s", "65536", "-n", "20")}
	for range 2 {
		clients = append(clients, client(lats, "ib_send_lat", "-s", "64", "-n", "20"))
	}
	for _, c := range clients {
		if rc := c.wait(t); rc != 0 {
			t.Errorf("%v: exit code %d\n%s\nserver:\n%s", c.Args, rc, c.output(), srv.output())
		}
	}
	for _, want := range []string{"read bw -s 1M --timeout 5 -p " + reads + ": ", " 4096 bytes, ", " 65536 bytes, ",
		" 64 bytes, "} {
		says(t, srv, want)
	}
	srv.Process.Signal(os.Interrupt)
	if rc := srv.wait(t); rc != 0 || strings.Contains(srv.diag.String(), "failed") { // no client was lost to a stranger
		t.Errorf("exit code %d\n%s", rc, srv.output())
	}

	srv = start(t, "rdmaperf", "serve", "--stock", "write bw -d nothere -p "+freshPort())
	if rc := srv.wait(t); rc != 1 || !strings.Contains(srv.diag.String(), "nothere") {
		t.Errorf("without the device: exit code %d\n%s", rc, srv.output())
	}
}

// TestStockUsage: a test that cannot wait for stock clients is refused with the reason.
func TestStockUsage(t *testing.T) {
	for line, want := range map[string]string{
		"write":                                  "no test",
		"write bw host":                          "only waits for clients",
		"write bw -p 0":                          "must know the port",
		"write bw -R":                            "exchange over TCP",
		"write bw -z":                            "exchange over TCP",
		"write bw --verify":                      "no known payload",
		"write bw --sizes 64,128":                "only all sizes",
		"write bw --run-infinitely":              "no other client",
		"write bw --json":                        "written to the log",
		"write bw --help":                        "without --help",
		"write bw -q 0":                          "queue pairs",
		"send bw -c RawEth -B 02:00:00:00:00:01": "do not connect",
	} {
		a := &agentOptions{stock: []string{line}, ibPort: 1, gidIndex: -1}
		if _, err := a.stockServers(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--stock %q: %v, want %q", line, err, want)
		}
	}
	a := &agentOptions{stock: []string{"write bw", "read bw -p 18515"}, ibPort: 1, gidIndex: -1}
	if _, err := a.stockServers(); err == nil || !strings.Contains(err.Error(), "each needs a port") {
		t.Errorf("two tests on a port: %v", err)
	}
	a = &agentOptions{stock: []string{"write bw -d other"}, device: "mlx5_0", ibPort: 2, gidIndex: 3}
	list, err := a.stockServers()
	if err != nil || list[0].Port != 18515 ||
		strings.Join(list[0].Args, " ") != "write bw -d mlx5_0 -i 2 -x 3 -d other" {
		t.Errorf("%+v, %v", list, err)
	}
}
