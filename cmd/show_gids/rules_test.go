package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/sysfs/sysfstest"
)

const (
	pci    = "pci0000:3a/0000:3b:00.0"
	own4   = "0000:0000:0000:0000:0000:ffff:0a00:0001" // 10.0.0.1
	other4 = "0000:0000:0000:0000:0000:ffff:0a00:0002"
	own6   = "2001:0db8:0000:0000:0000:0000:0000:0001"
	other6 = "2001:0db8:0000:0000:0000:0000:0000:0002"
	local6 = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001" // of the MAC of sysfstest's interfaces
)

// roce returns a tree with one RoCE device on eth2.
func roce(t *testing.T) *sysfstest.Tree {
	tr := sysfstest.New(t)
	tr.Netdev("eth2", "up", "0x1003", 4, 9000, "")
	tr.Device("mlx5_0", pci, "mlx5_core", "0c42:a103:0065:1a2e")
	tr.Port("mlx5_0", 1, "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)", 4)
	return tr
}

// rules are those of docs/gids.md, by its key. Each has a tree in which only this rule tells the first two GIDs apart;
// index 0 would be chosen without it.
var rules = map[string]struct {
	tree func(tr *sysfstest.Tree)
	best string // what --best prints; empty for exit status 1
	why  string // why it is not the GID of index 0
}{
	"here": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, other4, sysfstest.V2, "eth2") // eth2 of another namespace
		tr.GID("mlx5_0", 1, 1, own4, sysfstest.V2, "eth2")
		tr.Addresses("eth2 10.0.0.1/24", "eth3 10.0.0.2/24")
	}, "1", "no interface here has this address"},
	"nowhere": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "eth2")
		tr.Addresses("eth0 10.0.0.1/24", "eth2 10.0.0.9/24")
	}, "", "no interface here has this address"},
	"RoCE v1 by MAC": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, local6, sysfstest.V2, "eth2") // nobody answers for it
		tr.GID("mlx5_0", 1, 1, local6, sysfstest.V1, "eth2")
		tr.Addresses("eth2 10.0.0.1/24")
	}, "1", "no interface here has this address"},
	"duplicate": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, other6, sysfstest.V2, "eth2")
		tr.Addresses("eth2 2001:db8::1/64 dadfailed tentative", "eth2 2001:db8::2/64")
	}, "1", "another host has this address"},
	"tentative": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, other6, sysfstest.V2, "eth2")
		tr.Addresses("eth2 2001:db8::1/64 tentative", "eth2 2001:db8::2/64 tentative optimistic")
	}, "1", "the address is tentative"},
	"unicast": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, "fe80:0000:0000:0000:0000:0000:0000:0000", sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, own6, sysfstest.V1, "eth2")
	}, "1", "link-local without an interface id"},
	"iWARP": {func(tr *sysfstest.Tree) {
		tr.Write("class/infiniband/mlx5_0/node_type", "4: RNIC")
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V1, "")
	}, "", "iWARP connects by IP addresses"},
	"usNIC": {func(tr *sysfstest.Tree) {
		tr.Write("class/infiniband/mlx5_0/node_type", "6: usNIC UDP")
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V1, "")
	}, "", "usNIC has no connections by GIDs"},
	"port": {func(tr *sysfstest.Tree) {
		tr.Port("mlx5_0", 1, "1: DOWN", "Ethernet", "", 0)
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "eth2")
		tr.Port("mlx5_0", 2, "4: ACTIVE", "Ethernet", "", 0)
		tr.GID("mlx5_0", 2, 1, local6, sysfstest.V1, "eth2")
	}, "1", "port is not ACTIVE"},
	"netdev": {func(tr *sysfstest.Tree) {
		tr.Netdev("eth3", "down", "0x1003", 5, 9000, "")
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "eth3")
		tr.GID("mlx5_0", 1, 1, local6, sysfstest.V1, "eth2")
	}, "1", "netdev is down"},
	"type": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V1, "eth2")
		tr.GID("mlx5_0", 1, 1, own4, sysfstest.V2, "eth2")
	}, "1", "RoCE v1, which no router forwards"},
	"IPv4": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, own4, sysfstest.V2, "eth2")
	}, "1", "IPv6, IPv4 is preferred"},
	"scope": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, local6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, own6, sysfstest.V2, "eth2")
	}, "1", "link-local, which no router forwards"},
	"deprecated": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, other6, sysfstest.V2, "eth2")
		tr.Addresses("eth2 2001:db8::1/64 deprecated", "eth2 2001:db8::2/64 temporary")
	}, "1", "the address is deprecated"},
	"temporary": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own6, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, other6, sysfstest.V2, "eth2")
		tr.Addresses("eth2 2001:db8::1/64 temporary", "eth2 2001:db8::2/64")
	}, "1", "the address is temporary"},
	"VXLAN": {func(tr *sysfstest.Tree) {
		tr.Netdev("bond0", "up", "0x1003", 7, 9000, "bond")
		tr.Netdev("vxlan10", "up", "0x1003", 8, 8950, "vxlan")
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "vxlan10")
		tr.GID("mlx5_0", 1, 1, own4, sysfstest.V2, "bond0")
		tr.Addresses("vxlan10 10.0.0.1/24", "bond0 10.0.0.1/16")
	}, "1", "on a VXLAN"},
	"VLAN": {func(tr *sysfstest.Tree) {
		tr.Netdev("eth2.100", "up", "0x1003", 9, 9000, "vlan")
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "eth2.100")
		tr.GID("mlx5_0", 1, 1, other4, sysfstest.V2, "eth2")
	}, "1", "on a VLAN"},
	"index": {func(tr *sysfstest.Tree) {
		tr.GID("mlx5_0", 1, 0, own4, sysfstest.V2, "eth2")
		tr.GID("mlx5_0", 1, 1, other4, sysfstest.V2, "eth2")
	}, "0", "chosen"},
}

func TestRules(t *testing.T) {
	for key, rule := range rules {
		t.Run(key, func(t *testing.T) {
			tr := roce(t)
			rule.tree(tr)
			code, out, stderr := runOn(tr, "--best", "--why")
			want := exitOK
			if rule.best == "" {
				want = exitNothing
			}
			if code != want || strings.TrimSpace(out) != rule.best {
				t.Errorf("exit status %d, best %q, want %d and %q", code, out, want, rule.best)
			}
			var first string
			for line := range strings.Lines(stderr) {
				if strings.Contains(line, "/0 ") {
					first = line
				}
			}
			if !strings.Contains(first, rule.why) {
				t.Errorf("%q of index 0, want %q", first, rule.why)
			}
			up, list, _ := runOn(tr, "--up", "--columns=index")
			foreign := rule.why == "no interface here has this address"
			if foreign && (strings.Contains(list, "0\n") || (up != exitOK) != (rule.best == "")) {
				t.Errorf("--up: exit status %d, %q", up, list)
			}
		})
	}
}

// TestRulesDocumented compares the table of docs/gids.md with these trees.
func TestRulesDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/gids.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[3], "`") {
			continue
		}
		key := strings.Trim(cells[3], " `")
		listed = append(listed, key)
		if r, ok := rules[key]; !ok {
			t.Errorf("%q has no tree", key)
		} else if why := strings.Trim(cells[4], " `"); why != r.why {
			t.Errorf("%s: the reason is %q, not %q", key, r.why, why)
		}
	}
	for key := range rules {
		if !slices.Contains(listed, key) {
			t.Errorf("%s is not in the table", key)
		}
	}
}

func TestShowGIDs_IPoIB(t *testing.T) {
	tr := sysfstest.New(t)
	tr.Device("mlx4_0", pci, "mlx4_core", "0002:c903:0000:0000")
	tr.Write("devices/"+pci+"/infiniband/mlx4_0/.keep", "")
	for port := 1; port <= 2; port++ {
		tr.Port("mlx4_0", port, "4: ACTIVE", "InfiniBand", "40 Gb/sec (4X QDR)", 0)
		tr.GID("mlx4_0", port, 0, local6, sysfstest.V1, "")
	}
	tr.IPoIB("ib0", pci, 1)
	tr.IPoIB("ib1", pci, 2)
	tr.Addresses("ib1 127.0.0.1/8")
	for _, args := range [][]string{{"--netdev=ib1"}, {"--to=127.0.0.1"}, {"--to=127.0.0.1:80"}} {
		code, out, stderr := runOn(tr, append(args, "--columns=port,index")...)
		if code != exitOK || out != "PORT  INDEX\n2     0\n" {
			t.Errorf("%v: exit status %d, %q, %q", args, code, out, stderr)
		}
	}
	if code, out, _ := runOn(tr, "--netdev=ib2"); code != exitNothing || out != "" {
		t.Errorf("ib2: exit status %d, %q", code, out)
	}
}

func TestHost(t *testing.T) {
	for peer, want := range map[string]string{"server1": "server1", "server1:80": "server1", "10.0.0.1": "10.0.0.1",
		"10.0.0.1:80": "10.0.0.1", "fe80::1%eth2": "fe80::1%eth2", "[fe80::1%eth2]": "fe80::1%eth2",
		"[fe80::1]:80": "fe80::1", "::1": "::1", "2001:db8::1": "2001:db8::1"} {
		if got := host(peer); got != want {
			t.Errorf("%s: %s, want %s", peer, got, want)
		}
	}
}

// TestShowGIDs_Unreadable: what cannot be read is not empty, and hides nothing else.
func TestShowGIDs_Unreadable(t *testing.T) {
	tr := roce(t)
	tr.GID("mlx5_0", 1, 1, own4, sysfstest.V2, "eth2")
	tr.Symlink("mlx5_1", "class/infiniband/mlx5_1") // a loop, which root cannot read either
	code, out, stderr := runOn(tr, "--columns=device,index")
	if code != exitNothing || out != "DEVICE  INDEX\nmlx5_0  1\n" || !strings.Contains(stderr, "RDMA device mlx5_1: ") {
		t.Errorf("exit status %d, %q, %q", code, out, stderr)
	}
	if code, out, stderr = runOn(tr, "--best", "mlx5_0"); code != exitOK || out != "1\n" || stderr != "" {
		t.Errorf("the other one: exit status %d, %q, %q", code, out, stderr)
	}
	tr.Remove("class/infiniband/mlx5_0")
	for _, args := range [][]string{nil, {"--best"}} {
		code, _, stderr = runOn(tr, args...)
		if code != exitNothing || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "empty") {
			t.Errorf("%v: exit status %d, %q", args, code, stderr)
		}
	}
}

// TestShowGIDs_BestOfSeveral: whose index it is.
func TestShowGIDs_BestOfSeveral(t *testing.T) {
	tr := sysfstest.Standard(t)
	code, out, stderr := runOn(tr, "--best", "mlx5_2", "mlx5_10")
	const whose = "show_gids: index 0 is of mlx5_2, port 1; -d and -p choose others\n"
	if code != exitOK || out != "0\n" || stderr != whose {
		t.Errorf("exit status %d, %q, %q", code, out, stderr)
	}
}
