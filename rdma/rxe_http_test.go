package rdma

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_HTTP carries HTTP/1.1, and HTTP/2 over TLS: each body comes back with its hash.
func TestRXE_HTTP(t *testing.T) {
	r := testutil.NeedRXE(t)
	most := 8 << 20
	switch {
	case testutil.Full():
		most = 100 << 20
	case !r.Emulated: // TLS takes long on an emulated processor
		most = 200_000
	}
	for _, secure := range []bool{false, true} {
		if secure && !r.Emulated && !testutil.Full() {
			continue
		}
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[secure], func(t *testing.T) {
			server, client := newEngines(t, nil)
			l := listenStream(t, server)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				sum := sha256.Sum256(body)
				w.Header().Set("Hash", fmt.Sprintf("%x", sum))
				w.Header().Set("Proto", r.Proto)
				_, _ = w.Write(body)
			}))
			_ = srv.Listener.Close()
			srv.Listener = l
			srv.EnableHTTP2 = secure
			if secure {
				srv.StartTLS()
			} else {
				srv.Start()
			}
			defer srv.Close()
			tr := transport(t, client, l.Addr().String())
			defer tr.CloseIdleConnections()
			if secure {
				tr.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig
				tr.TLSClientConfig.InsecureSkipVerify = true
				tr.ForceAttemptHTTP2 = true
			}
			c := &http.Client{Transport: tr}
			want := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[secure]
			for _, n := range []int{1, 28, 1000, 32 << 10, 100_000, most} {
				body := bytes.Repeat([]byte("pureverbs "), n/10+1)[:n]
				resp, err := c.Post(srv.URL, "application/octet-stream", bytes.NewReader(body))
				ok(t, err)
				got, err := io.ReadAll(resp.Body)
				ok(t, err)
				_ = resp.Body.Close()
				sum := sha256.Sum256(body)
				if !bytes.Equal(got, body) || resp.Header.Get("Hash") != fmt.Sprintf("%x", sum) ||
					resp.Header.Get("Proto") != want {
					t.Errorf("%d bytes: got %d, %v", n, len(got), resp.Header)
				}
			}
		})
	}
}

// TestRXE_ReverseProxy has a proxy between client and server, all three over RDMA, and a connection that the handler
// takes over.
func TestRXE_ReverseProxy(t *testing.T) {
	needLogic(t)
	server, client := newEngines(t, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
	mux.HandleFunc("/raw", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("you said " + line)
		_ = rw.Flush()
	})
	back := httptest.NewUnstartedServer(mux)
	_ = back.Listener.Close()
	back.Listener = listenStream(t, server)
	back.Start()
	defer back.Close()

	at, err := url.Parse(back.URL)
	ok(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	inner := transport(t, client, back.Listener.Addr().String())
	defer inner.CloseIdleConnections()
	proxy.Transport = inner
	front := httptest.NewUnstartedServer(proxy)
	_ = front.Listener.Close()
	front.Listener = listenStream(t, server)
	front.Start()
	defer front.Close()

	tr := transport(t, client, front.Listener.Addr().String())
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	resp, err := c.Get(front.URL + "/hello")
	ok(t, err)
	got, err := io.ReadAll(resp.Body)
	ok(t, err)
	_ = resp.Body.Close()
	if string(got) != "hello" {
		t.Errorf("through the proxy: %q", got)
	}
	req, err := http.NewRequest("GET", front.URL+"/raw", nil)
	ok(t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "raw")
	resp, err = c.Do(req)
	ok(t, err)
	raw := resp.Body.(io.ReadWriteCloser)
	_, err = io.WriteString(raw, "good day\n")
	ok(t, err)
	got, err = io.ReadAll(raw)
	ok(t, err)
	_ = raw.Close()
	if string(got) != "you said good day\n" {
		t.Errorf("on the connection that was taken over: %q", got)
	}
}

func listenStream(t testing.TB, e *Engine) *StreamListener {
	t.Helper()
	l, err := ListenStream(timeout(t), net.JoinHostPort(testutil.NeedRXE(t).IP[0], "0"), &Options{Engine: e})
	ok(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// transport dials addr for every request.
func transport(t testing.TB, e *Engine, addr string) *http.Transport {
	r := testutil.NeedRXE(t)
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return DialStream(ctx, addr, from(r, e))
	}, TLSClientConfig: &tls.Config{}}
}
