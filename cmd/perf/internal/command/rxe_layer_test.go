package command

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// TestRXE_Layer runs rdmaperf stream and rdmaperf message, and compares them with each other way.
func TestRXE_Layer(t *testing.T) {
	vm := needOnce(t)
	for _, tc := range []struct {
		line string
		over string // what runs, in order of its first run
	}{
		{"stream bw -s 4K -n 40 --compare --rounds 2", "stream send tcp copy"},
		{"message lat -n 20 --compare --rounds 1", "message send tcp"},
		{"message bw -s 100 -n 60 -q 3", "message"},
		{"message bw -s 5000 -n 60 --compare=buffer --rounds 1", "message buffer"},
	} {
		t.Run(tc.line, func(t *testing.T) {
			args := strings.Fields(tc.line)
			port := freshPort()
			freshPort() // raw verbs take the next one
			srv := start(t, "rdmaperf", args[0], args[1], "-p", port, "--address", vm.IP[0], "-d", vm.Dev[0], "--json")
			says(t, srv, "waiting for a client on TCP port "+port)
			cli := start(t, "rdmaperf", append(slices.Clone(args), "-p", port, "--json", vm.Host[0])...)
			if rc := cli.wait(t); rc != 0 {
				t.Fatalf("client: exit code %d\n%s\nserver:\n%s", rc, cli.output(), srv.output())
			}
			if rc := srv.wait(t); rc != 0 {
				t.Fatalf("server: exit code %d\n%s", rc, srv.output())
			}
			var doc struct {
				Results []struct {
					Over     string   `json:"over"`
					Messages int      `json:"messages"`
					Rate     *float64 `json:"messages_per_second"`
					Client   *struct {
						CPU float64 `json:"cpu_seconds"`
					} `json:"client"`
					Server *struct {
						Frames int `json:"frames_received"`
					} `json:"server"`
					Lat *struct {
						P50 float64 `json:"latency_p50_ns"`
					} `json:"latency"`
				} `json:"results"`
			}
			if err := json.Unmarshal([]byte(cli.out.String()), &doc); err != nil {
				t.Fatalf("%v in\n%s", err, cli.output())
			}
			var over []string
			for _, r := range doc.Results {
				if !slices.Contains(over, r.Over) {
					over = append(over, r.Over)
				}
				if r.Client == nil || r.Server == nil || r.Messages == 0 {
					t.Errorf("%s: %+v", r.Over, r)
					continue
				}
				if bw := args[1] == "bw"; bw && r.Rate == nil || !bw && (r.Lat == nil || r.Lat.P50 <= 0) {
					t.Errorf("%s has no figure: %+v", r.Over, r)
				}
				if r.Over == args[0] && r.Server.Frames == 0 {
					t.Errorf("%s: the server received no frame", r.Over)
				}
			}
			if got := strings.Join(over, " "); got != tc.over {
				t.Errorf("%s ran, want %s", got, tc.over)
			}
		})
	}
}

// TestRXE_LayerStrangers: a server says who came that was no client, and who left in the middle.
func TestRXE_LayerStrangers(t *testing.T) {
	vm := needOnce(t)
	const order = `{"version":1,"carrier":"tcp","size":1,"conns":1,"messages":1}` + "\n"
	for _, tc := range []struct{ says, want string }{
		{"", "the client sent no request"}, // a probe
		{"6.27", "the peer is not rdmaperf stream or rdmaperf message"},
		{order, "the client closed the connection"},
		{"silence", "no request from the client for 1s"},
	} {
		port := freshPort()
		args := []string{"stream", "bw", "-p", port, "-d", vm.Dev[0]}
		if tc.says == "silence" {
			args = append(args, "--timeout", "1")
		}
		srv := start(t, "rdmaperf", args...)
		says(t, srv, "waiting for a client on TCP port "+port)
		c, err := net.Dial("tcp", net.JoinHostPort(vm.Host[0], port))
		if err != nil {
			t.Fatal(err)
		}
		if tc.says != "silence" {
			io.WriteString(c, tc.says)
			if tc.says == order { // a run in which it gets as far as the first connection
				var a struct{ Address string }
				if err := json.NewDecoder(c).Decode(&a); err != nil {
					t.Fatal(err)
				}
				data, err := net.Dial("tcp", a.Address)
				if err != nil {
					t.Fatal(err)
				}
				data.Close()
			}
			c.Close()
		}
		rc := srv.wait(t)
		c.Close()
		if rc != 1 || !strings.Contains(srv.diag.String(), tc.want) {
			t.Errorf("%q: exit code %d, want 1 and %q\n%s", tc.says, rc, tc.want, srv.output())
		}
	}
}
