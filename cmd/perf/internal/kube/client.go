package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/tick"
)

// Account is where a pod has the files of its service account.
const Account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Variables of a run's pod: the name and the UID of its Job.
const (
	RunEnv = "RDMAPERF_RUN"
	UIDEnv = "RDMAPERF_RUN_UID"
)

const (
	// requests is how long a reply may take.
	requests = 5 * time.Second
	// mostReply is how long it may be.
	mostReply = 8 << 20
	// patience is for how long an API server that does not reply is tried.
	patience = 30 * time.Second
)

// Client asks the API server as the service account of this pod. Its methods may be called at the same time.
type Client struct {
	Namespace string // of this pod
	base      string
	account   string // folder
	http      http.Client
}

// Connect returns a client for the API server of the pod that this program runs in. It asks nothing yet.
func Connect(getenv func(string) string, account string) (*Client, error) {
	host := getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST is not set: not in a pod of Kubernetes")
	}
	c := &Client{account: account, base: "https://" + net.JoinHostPort(strings.Trim(host, "[]"),
		cmp.Or(getenv("KUBERNETES_SERVICE_PORT"), "443"))}
	name, err := os.ReadFile(filepath.Join(account, "namespace"))
	if err != nil {
		return nil, fmt.Errorf("the pod has no service account (automountServiceAccountToken): %w", err)
	}
	c.Namespace = strings.TrimSpace(string(name))
	pem, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(account, "ca.crt"))
	}
	c.http.Transport = &http.Transport{ // no proxy: the API server is in the cluster
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, IdleConnTimeout: time.Minute}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// StatusError is a reply of the API server that is not success.
type StatusError struct {
	Code    int // of HTTP
	Message string
	Pause   time.Duration // for which the API server asks
}

// Error returns one line.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, http.StatusText(e.Code), e.Message)
}

// passes reports whether the same request may succeed later.
func passes(err error) bool {
	switch c := code(err); c {
	case 0: // no reply, or one that nobody understands
	case http.StatusUnauthorized: // the token has been replaced, and is read again
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
	default:
		return c >= 500
	}
	return true
}

// code returns the code of a reply, 0 if there is none.
func code(err error) int { return status(err).Code }

// status returns the reply of an error, an empty one if there is none.
func status(err error) *StatusError {
	if s := (*StatusError)(nil); errors.As(err, &s) {
		return s
	}
	return &StatusError{}
}

// do sends a request once, and reads the reply into an object, if there is one.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	err := c.once(ctx, method, path, in, out)
	if err == nil {
		return nil
	}
	what := strings.ToLower(method) + " " + path
	if code(err) == http.StatusForbidden {
		return fmt.Errorf("the API server refuses %s: %w; the Role rdmaperf-mesh and its RoleBinding in "+
			"deploy/kubernetes permit it: apply them", what, err)
	}
	return fmt.Errorf("the API server, %s: %w", what, err)
}

func (c *Client) once(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requests, fmt.Errorf("no reply within %v", requests))
	defer cancel()
	token, err := os.ReadFile(filepath.Join(c.account, "token")) // the kubelet replaces it
	if err != nil {
		return err
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "pureverbs-rdmaperf")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	reply, err := c.http.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, mostReply+1))
	switch cause := context.Cause(ctx); {
	case cause != nil && err != nil:
		return cause
	case err != nil:
		return err
	case len(text) > mostReply:
		return fmt.Errorf("a reply of more than %d bytes", mostReply)
	case reply.StatusCode >= 200 && reply.StatusCode < 300 && out == nil:
		return nil
	case reply.StatusCode >= 200 && reply.StatusCode < 300:
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("a reply that is no object: %w: %.60q", err, text)
		}
		return nil
	}
	e := &StatusError{Code: reply.StatusCode}
	var status struct{ Message string }
	if json.Unmarshal(text, &status) == nil {
		e.Message = status.Message
	}
	e.Message = cmp.Or(e.Message, fmt.Sprintf("%.200q", text))
	if n, err := strconv.Atoi(reply.Header.Get("Retry-After")); err == nil && n > 0 {
		e.Pause = time.Duration(min(n, 3600)) * time.Second
	}
	return e
}

// again sends a request until it has an outcome, for patience.
func (c *Client) again(ctx context.Context, method, path string, in, out any) error {
	for end := time.Now().Add(patience); ; {
		err := c.do(ctx, method, path, in, out)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		pause := min(max(polls, status(err).Pause), mostPause)
		if time.Now().Add(pause).After(end) || !tick.Wait(ctx, pause) {
			return err
		}
	}
}
