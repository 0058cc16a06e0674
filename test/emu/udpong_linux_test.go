//go:build linux && amd64 && !race

package emu

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// udpong runs a server $1, and a client $2 that counts and one that echoes. The address is none of a device's GIDs,
// so that it is that of the first device, which is InfiniBand: elsewhere rsockets have no datagrams.
const udpong = `
ip addr add 10.99.0.1/32 dev lo || exit
$1 -b 10.99.0.1 -p 7200 &
until grep -q ':1C20 ' /proc/net/udp; do sleep 0.01; done
$2 -s 10.99.0.1 -p 7200 -C 100 -S 500 -T async &&
$2 -s 10.99.0.1 -p 7200 -C 100 -S 500 -T nonblocking -T echo
code=$?
kill $!
wait $!
exit $code
`

// TestEmuUDPong sends datagrams of rsockets, with stock programs in both roles. Datagrams may be lost or late, so
// that fewer than 100 may have arrived when the client asks.
func TestEmuUDPong(t *testing.T) {
	testutil.NeedEmu(t)
	own, stock := filepath.Join(root, ".build/bin/rsocket")+" udpong", "/usr/bin/udpong"
	for _, tt := range []struct{ name, server, client, want string }{
		{"ours", own, own, `(?s)client 0 is 10\.99\.0\.1:.*; [1-9][0-9]* have arrived\n.*200 transfers .* every byte as it should be`},
		{"stock client", own, stock, `(?s)custom +500 +[1-9][0-9]* .*custom +500 +200 `},
		{"stock server", stock, own, `(?s); [1-9][0-9]* have arrived\n.*200 transfers .* every byte as it should be`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := here.emulate(t, []string{"--strict-ignore=leak", "--device", "mlx5_0,link=ib", "--device", "mlx5_1"},
				"sh", "-c", udpong, "sh", tt.server, tt.client)
			if err != nil || !regexp.MustCompile(tt.want).MatchString(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
