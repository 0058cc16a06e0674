package kube

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// account makes the folder of a service account.
func account(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestConnect: a token that the kubelet replaces is read again, a reply is believed from the API server alone, and no
// redirect is followed.
func TestConnect(t *testing.T) {
	var valid atomic.Value
	valid.Store("first")
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+valid.Load().(string):
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/there", http.StatusFound)
		default:
			json.NewEncoder(w).Encode(fields{"kind": r.Method})
		}
	}))
	defer s.Close()
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port,
		"HTTPS_PROXY": "http://192.0.2.1:1"}
	getenv := func(name string) string { return env[name] }
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	dir := account(t, map[string]string{"token": "first\n", "ca.crt": ca, "namespace": "rdmaperf\n"})
	c, err := Connect(getenv, dir)
	if err != nil || c.Namespace != "rdmaperf" {
		t.Fatalf("%v: %+v", err, c)
	}
	ask := func(c *Client, path string) error {
		var o struct{ Kind string }
		if err := c.do(t.Context(), http.MethodGet, path, nil, &o); err != nil || o.Kind != "GET" {
			return fmt.Errorf("%w: %+v", err, o)
		}
		return nil
	}
	if err := ask(c, "/x"); err != nil {
		t.Error(err)
	}
	valid.Store("second")
	if err := ask(c, "/x"); code(err) != http.StatusUnauthorized || !passes(err) {
		t.Errorf("with an old token: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(c, "/x"); err != nil {
		t.Errorf("with the new token: %v", err)
	}
	if err := ask(c, "/away"); code(err) != http.StatusFound || passes(err) {
		t.Errorf("a redirect: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if err := ask(c, "/x"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("without a token: %v", err)
	}

	for name, tt := range map[string]struct {
		env   map[string]string
		files map[string]string
		want  string
	}{
		"no pod":       {map[string]string{}, nil, "KUBERNETES_SERVICE_HOST is not set"},
		"no account":   {env, nil, "automountServiceAccountToken"},
		"no authority": {env, map[string]string{"namespace": "rdmaperf"}, "ca.crt"},
		"an authority that is not": {env, map[string]string{"namespace": "rdmaperf", "ca.crt": "x"},
			"ca.crt has no certificate"},
	} {
		_, err := Connect(func(name string) string { return tt.env[name] }, account(t, tt.files))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	six, err := Connect(func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1"}[name]
	}, account(t, map[string]string{"ca.crt": ca, "namespace": "rdmaperf"}))
	if err != nil || six.base != "https://[fd00::1]:443" {
		t.Errorf("%v: %+v", err, six)
	}
}

// strangeAuthority vouches for nobody.
const strangeAuthority = `-----BEGIN CERTIFICATE-----
MIIBfDCCASGgAwIBAgIUMI5SxWRSrDa4lbCBDUTDFkYBioYwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHYW5vdGhlcjAgFw0yNjExMjkwMDM0NDJaGA8yMTI2MTEwNTAw
MzQ0MlowEjEQMA4GA1UEAwwHYW5vdGhlcjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABAusVGj7Ndu1K7Yg+2A5RQpVFLdEgxNHi1M2mqJCt8Lt1eZHoNLMXZgG7MKX
j4ENypACTEIuXwIgganKEvE4MvajUzBRMB0GA1UdDgQWBBSEjqeBMx9caUH2hnxs
wkPg896gjjAfBgNVHSMEGDAWgBSEjqeBMx9caUH2hnxswkPg896gjjAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0kAMEYCIQD0Wg289vze1DPLlA2DDQLeMGqX
en1U5f9hUJOkwERsewIhAJLXtkm/ycKDqJAe3FIRG/JNSEHhs+KyH4suJ/4YUA/i
-----END CERTIFICATE-----
`

// TestConnectStranger: a server that another authority vouches for learns no token.
func TestConnectStranger(t *testing.T) {
	asked := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	host, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c, err := Connect(func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
	}, account(t, map[string]string{"token": "t", "ca.crt": strangeAuthority, "namespace": "rdmaperf"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.do(t.Context(), http.MethodGet, "/x", nil, nil); err == nil || asked ||
		!strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("%v, asked: %v", err, asked)
	}
}
