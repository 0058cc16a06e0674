package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/rdma"
)

// doc: http-test
func TestMain(m *testing.M) { emutest.Run(m, emutest.Strict()) }

func TestPage(t *testing.T) {
	emutest.Need(t)
	defer rdma.CloseIdle() // last: strict mode reports what is left as a leak
	l, err := rdma.ListenStream(t.Context(), "10.88.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(http.HandlerFunc(page))
	ts.Listener.Close()
	ts.Listener, ts.Config.ConnContext = l, withTransport
	ts.Start()
	defer ts.Close()
	client := ts.Client()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
		return rdma.DialStream(ctx, addr, nil)
	}
	resp, err := client.Get(ts.URL)
	// end
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), "rdma mlx5_0") {
		t.Errorf("%q, %v", b, err)
	}
}
