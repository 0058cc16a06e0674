package main

import (
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSIW_StockCM runs perftest's programs against ours with -R on iWARP, in both roles.
func TestSIW_StockCM(t *testing.T) {
	vm := testutil.NeedSIW(t)
	for _, k := range kinds {
		ours := []string{"perf", k.verb, k.metric, "--json", "-n", "50", "-s", "4096"}
		stock := stockName("", k.verb, k.metric)
		theirs := append(stockOf(t, "", k.verb, k.metric), "-n", "50", "-s", "4096")
		t.Run(stock+"/we serve", func(t *testing.T) {
			if stock == "ib_send_bw" {
				refusedSIW(t, vm, ours, theirs)
				return
			}
			srv, cli := pairCM(t, vm, ours, theirs)
			stockRow(t, cli, "4096")
			if o := srv.outcome(t); o.Error != "" || o.Peer.Ours || !o.Test.RDMACM {
				t.Errorf("%+v", o)
			}
		})
		t.Run(stock+"/stock serves", func(t *testing.T) {
			_, cli := pairCM(t, vm, theirs, ours)
			if o := cli.outcome(t); o.Error != "" || o.Peer.Ours || !o.Test.RDMACM || len(o.Results) == 0 {
				t.Errorf("%+v", o)
			}
		})
	}
}

// refusedSIW wants a server to say why it cannot serve a stock client.
func refusedSIW(t *testing.T, vm testutil.RXE, ours, theirs []string) {
	port := freshPort()
	srv := start(t, ours[0], append(ours[1:], "-R", "-d", vm.Dev[0], "-p", port)...)
	says(t, srv, "waiting for a client on rdma_cm port "+port)
	start(t, theirs[0], append(theirs[1:], "-R", "-p", port, vm.IP[0])...)
	if rc := srv.wait(t); rc == 0 || !strings.Contains(srv.output(), "it waits for credits") {
		t.Errorf("exit code %d\n%s", rc, srv.output())
	}
}
