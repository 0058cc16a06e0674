//go:build linux && amd64 && !race

package emu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuInterface changes the interface of a port, as ip(8) does, and checks that the port follows at once: what a
// program is told by each way to ask, and the events in their order.
func TestEmuInterface(t *testing.T) {
	testutil.NeedEmu(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: as root, make test-emu runs it: it takes root to change an interface")
	}
	// The first device's table: link-local, IPv4 and IPv6, each for v1 and v2. The second one's interface has a VLAN.
	if !inside(t, "--strict", "--device", "mlx5_0,gid=fe80::e61d:2dff:fee0:0,gid=10.88.0.1,gid=fd00:88::1", "--device",
		"mlx5_1,gid=10.88.1.1,vlan=7,gid=10.7.7.1") {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	d, err := ibv.Open("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const down, up, gid = ibv.EventPortErr, ibv.EventPortActive, ibv.EventGIDChange
	const lost = "0:fe80 1:fe80 2:10.88.0.1 3:10.88.0.1" // an interface that goes down loses its IPv6 addresses
	const all = lost + " 4:fd00 5:fd00"
	for _, x := range []struct {
		do     string
		events []ibv.AsyncEventType
		state  ibv.PortState
		mtu    ibv.MTU
		gids   string
	}{
		{"true", nil, ibv.PortActive, ibv.MTU1024, all},
		{"ip link set emu0 mtu 9000", nil, ibv.PortActive, ibv.MTU4096, all},
		{"ip link set emu0 mtu 4191", nil, ibv.PortActive, ibv.MTU2048, all},
		{"ip link set emu0 mtu 1500", nil, ibv.PortActive, ibv.MTU1024, all},
		{"ip addr add 10.1.2.3/24 dev emu0", []ibv.AsyncEventType{gid, gid}, ibv.PortActive, ibv.MTU1024,
			all + " 6:10.1.2.3 7:10.1.2.3"},
		{"ip addr del 10.1.2.3/24 dev emu0", []ibv.AsyncEventType{gid, gid}, ibv.PortActive, ibv.MTU1024, all},
		{"ip link set emu0 down", []ibv.AsyncEventType{down, gid, gid}, ibv.PortDown, ibv.MTU1024, lost},
		{"ip link set emu0 up", []ibv.AsyncEventType{up}, ibv.PortActive, ibv.MTU1024, lost},
		{"ip link set emu0 down && ip link set emu0 up", []ibv.AsyncEventType{down, up}, ibv.PortActive, ibv.MTU1024, lost},
		{"ip link set emu1 down && ip link set emu1 mtu 9000", nil, ibv.PortActive, ibv.MTU1024, lost},
		// The cable is another matter than the interface.
		{"EMU control port mlx5_0 1 down", []ibv.AsyncEventType{down}, ibv.PortDown, ibv.MTU1024, lost},
		{"ip link set emu0 down && EMU control port mlx5_0 1 up", nil, ibv.PortDown, ibv.MTU1024, lost},
		{"ip link set emu0 up", []ibv.AsyncEventType{up}, ibv.PortActive, ibv.MTU1024, lost},
		{"EMU control gid mlx5_0 1 5 10.5.5.5 && ip addr show emu0 | grep -q 10.5.5.5", []ibv.AsyncEventType{gid},
			ibv.PortActive, ibv.MTU1024, lost + " 5:10.5.5.5"},
		{"ip link del emu0", []ibv.AsyncEventType{down, gid, gid, gid, gid, gid}, ibv.PortDown, ibv.MTU1024, ""},
	} {
		if out, err := exec.Command("sh", "-c", strings.ReplaceAll(x.do, "EMU", emulator())).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", x.do, err, out)
		}
		p, err := d.QueryPort(1)
		if err != nil {
			t.Fatal(err)
		}
		if p.State != x.state || p.ActiveMTU != x.mtu {
			t.Errorf("%s: the port is %v with MTU %v, want %v with %v", x.do, p.State, p.ActiveMTU, x.state, x.mtu)
		}
		want := fmt.Sprintf("%d: %s\n", x.state, strings.ToUpper(strings.TrimPrefix(x.state.String(), "PORT_")))
		b, err := os.ReadFile("/sys/class/infiniband/mlx5_0/ports/1/state")
		if err != nil || !strings.EqualFold(string(b), want) {
			t.Errorf("%s: sysfs says %q, %v, want %q", x.do, b, err, want)
		}
		links, _ := exec.Command("rdma", "link", "show", "mlx5_0/1").CombinedOutput()
		if strings.Contains(string(links), "state ACTIVE") != (x.state == ibv.PortActive) {
			t.Errorf("%s: rdma link says %s", x.do, links)
		}
		if gids := table(t, d); gids != x.gids {
			t.Errorf("%s: the GIDs are %s, want %s", x.do, gids, x.gids)
		}
		var events []ibv.AsyncEventType
		for range x.events {
			ev, err := d.AsyncEvent(ctx)
			if err != nil {
				t.Fatalf("%s: after %v: %v", x.do, events, err)
			}
			events = append(events, ev.Type)
		}
		if !slices.Equal(events, x.events) {
			t.Errorf("%s: events %v, want %v", x.do, events, x.events)
		}
	}
	// No others: the next one is of an entry that is changed now.
	next := exec.Command(emulator(), "control", "gid", "mlx5_0", "1", "9", "10.9.9.9")
	if out, err := next.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if ev, err := d.AsyncEvent(ctx); err != nil || ev.Type != gid {
		t.Errorf("one event more than there should be: %v, %v", ev, err)
	}
	two, err := ibv.Open("mlx5_1")
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	before := table(t, two)
	for _, x := range [][2]string{{"add", before + " 6:10.7.7.7 7:10.7.7.7"}, {"del", before}} {
		do, want := x[0], x[1]
		if out, err := exec.Command("ip", "addr", do, "10.7.7.7/24", "dev", "emu1.7").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if gids := table(t, two); gids != want {
			t.Errorf("%s on a VLAN: the GIDs are %s, want %s", do, gids, want)
		}
	}
}

// table is the GID table of a device's port: each index with an IPv4 address, or with the first word of an IPv6 one.
func table(t *testing.T, d *ibv.Device) string {
	t.Helper()
	all, err := d.GIDTable()
	if err != nil {
		t.Fatal(err)
	}
	var gids []string
	for _, e := range all {
		ip := e.GID.Addr().Unmap().String()
		if first, _, v6 := strings.Cut(ip, ":"); v6 {
			ip = first
		}
		gids = append(gids, fmt.Sprintf("%d:%s", e.Index, ip))
	}
	return strings.Join(gids, " ")
}

// TestEmuInterfaceMTU sends datagrams as long as an interface's new MTU admits.
func TestEmuInterfaceMTU(t *testing.T) {
	testutil.NeedEmu(t)
	if os.Getuid() != 0 {
		t.Skip("skipped: as root, make test-emu runs it: it takes root to change an interface")
	}
	flags := []string{"--strict-ignore=leak"}
	if out := script(t, false, flags, "ibv_ud_pingpong -g 3 -s 4096 2>&1; true"); !strings.Contains(out,
		"larger than port MTU (1024)") {
		t.Errorf("4096 bytes at first: %s", out)
	}
	const pong = "ibv_ud_pingpong -p 21911 -g 3 -c -n 20 -s 4096"
	out := script(t, false, flags, "ip link set emu0 mtu 9000 && "+filepath.Join(root, ".build/bin/pair")+
		" -t 3m -p 21911 "+pong+" -- "+pong+" 127.0.0.1")
	if strings.Count(out, "20 iters") != 2 {
		t.Errorf("%s", out)
	}
}
