package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/kube"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/mesh"
)

// kubeOptions has the options of a mesh whose agents are a Job of Kubernetes.
type kubeOptions struct {
	account  string // folder of the service account
	template string // a CronJob
	lease    string
	wait     time.Duration
}

func (k *kubeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&k.template, "job-from", "",
		"`CronJob` of this pod's namespace (Kubernetes): a Job of its template starts an agent on each host")
	f.StringVar(&k.lease, "lease", "rdmaperf-mesh",
		"`Lease` that a run with --job-from takes for its hosts: NAME, or NAMESPACE/NAME")
	k.account, k.wait = kube.Account, time.Hour
	f.Var(seconds(&k.wait), "lease-wait", "time to wait for the Lease while another run has it (0: none)")
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// where returns the namespace of the Lease, "" for that of the pod, and its name.
func (k *kubeOptions) where() (namespace, name string, err error) {
	namespace, name, both := strings.Cut(k.lease, "/")
	if !both {
		namespace, name = "", k.lease
	}
	if !dnsLabel.MatchString(name) || both && !dnsLabel.MatchString(namespace) {
		return "", "", fmt.Errorf("--lease %.200q; allowed: NAME or NAMESPACE/NAME, of at most 63 letters a to z, "+
			"digits and - each", k.lease)
	}
	return namespace, name, nil
}

// checkKube checks the options of a mesh on Kubernetes.
func (m *meshOptions) checkKube(f *pflag.FlagSet) error {
	k := &m.kube
	if !f.Changed("job-from") {
		for _, n := range []string{"lease", "lease-wait"} {
			if f.Changed(n) {
				return fmt.Errorf("--%s: only with --job-from", n)
			}
		}
		return nil
	}
	switch _, _, err := k.where(); {
	case err != nil:
		return err
	case !dnsLabel.MatchString(k.template):
		return fmt.Errorf("--job-from %.200q; allowed: the name of a CronJob", k.template)
	case k.wait < 0:
		return fmt.Errorf("--lease-wait %v; allowed: at least 0", k.wait)
	case m.config.Expect == 0:
		return fmt.Errorf("--expect 0 pods of --job-from; allowed: 2 to %d", mesh.MostHosts)
	case m.tokenFile == "" || m.tokenFile == "-":
		return errors.New("--job-from needs --token-file, a file of the same path in the agents' pods")
	}
	return nil
}

// runName returns a name that no other run has: for the Lease, and for the Job.
func runName(name string) string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.TrimRight(cmp.Or(name[:min(len(name), 40)], "run"), "-") + "-" + hex.EncodeToString(b[:])
}

// placed runs a mesh whose agents are a Job, once no other run has the hosts.
func (m *meshOptions) placed(ctx context.Context, c mesh.Config, show *meshProgress) (res *mesh.Result, err error) {
	where, err := m.listen(&c)
	if err != nil {
		return nil, err
	}
	defer c.Listener.Close()
	client, err := kube.Connect(os.Getenv, m.kube.account)
	if err != nil {
		return nil, err
	}
	template, err := client.Template(ctx, m.kube.template)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	id := runName(cmp.Or(os.Getenv(kube.RunEnv), host))
	lock := &kube.Lock{Client: client, ID: id, Wait: m.kube.wait, Say: show.await}
	if lock.Namespace, lock.Name, err = m.kube.where(); err != nil {
		return nil, err
	}
	lock.Namespace = cmp.Or(lock.Namespace, client.Namespace)
	if l := lock.Label(); len(l) > 63 {
		return nil, fmt.Errorf("--lease %s: %d characters; allowed: 63, because it is a label", l, len(l))
	}
	held, release, err := lock.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := release(); failed != nil {
			show.say(fmt.Errorf("the Lease keeps other runs out for another %v: %w", kube.Duration, failed))
		}
	}()
	args := []string{"serve", "--join", where, "--token-file", m.tokenFile}
	run := kube.Run{ID: id, Owner: os.Getenv(kube.RunEnv), UID: os.Getenv(kube.UIDEnv), Lease: lock.Label(),
		Hosts: m.config.Expect, Args: append(args, m.agentWords()...)}
	job, err := template.Start(held, run, func(line string) { show.say(fmt.Errorf("agents: %s", line)) })
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := job.Delete(); failed != nil {
			show.say(fmt.Errorf("the Job %s of the agents stays: %w", id, failed))
		}
	}()
	c.Launched = job.Begun
	beginsWith(&c, job.Calm)
	return mesh.Run(held, c)
}
