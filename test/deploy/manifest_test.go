package deploy

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds makes an object of each kind that a manifest may have.
var kinds = map[string]func() metav1.Object{
	"v1 Service":        func() metav1.Object { return &corev1.Service{} },
	"apps/v1 DaemonSet": func() metav1.Object { return &appsv1.DaemonSet{} },
	"batch/v1 Job":      func() metav1.Object { return &batchv1.Job{} },
}

// check reads a document as the API server does with fieldValidation=Strict, and looks at what it then demands of such
// objects.
func check(doc []byte) (string, error) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return "", err
	}
	kind := head.APIVersion + " " + head.Kind
	empty := kinds[kind]
	if empty == nil {
		return kind, errors.New("this kind is not one of those that are known here")
	}
	o := empty()
	text, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return kind, err
	}
	strict, err := json.UnmarshalStrict(text, o)
	if err := errors.Join(append(strict, err)...); err != nil {
		return kind, err
	}
	var bad []string
	complain := func(wrong bool, what string) {
		if wrong {
			bad = append(bad, what)
		}
	}
	names := func(what string, list []string) {
		for _, msg := range list {
			bad = append(bad, what+": "+msg)
		}
	}
	names("metadata.name", validation.IsDNS1123Label(o.GetName()))
	switch o := o.(type) {
	case *corev1.Service:
		complain(len(o.Spec.Selector) == 0, "a service without a selector finds no agents")
		complain(len(o.Spec.Ports) == 0, "a service has a port at least")
	case *appsv1.DaemonSet:
		sel := o.Spec.Selector
		if sel == nil || len(sel.MatchLabels) == 0 {
			return kind, errors.New("spec.selector is needed")
		}
		for k, v := range sel.MatchLabels {
			complain(o.Spec.Template.Labels[k] != v, "spec.selector does not match the template's labels")
		}
		p := o.Spec.Template.Spec.RestartPolicy
		complain(p != "" && p != corev1.RestartPolicyAlways, "pods of a daemon set restart always")
		pod(&o.Spec.Template.Spec, complain, names)
	case *batchv1.Job:
		p := o.Spec.Template.Spec.RestartPolicy
		complain(p != corev1.RestartPolicyNever && p != corev1.RestartPolicyOnFailure,
			"a job's pods restart Never or OnFailure")
		pod(&o.Spec.Template.Spec, complain, names)
	}
	if bad != nil {
		return kind, errors.New(strings.Join(bad, "; "))
	}
	return kind, nil
}

// pod looks at the pods of an object.
func pod(p *corev1.PodSpec, complain func(bool, string), names func(string, []string)) {
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		names("volume", validation.IsDNS1123Label(v.Name))
		volumes[v.Name] = true
	}
	complain(len(p.Containers) == 0, "a pod has a container at least")
	for _, c := range p.Containers {
		names("container", validation.IsDNS1123Label(c.Name))
		complain(c.Image == "", "container "+c.Name+" has no image")
		for _, m := range c.VolumeMounts {
			complain(!volumes[m.Name], "container "+c.Name+" mounts "+m.Name+", which is no volume")
		}
		for _, e := range c.Env {
			names("env", validation.IsEnvVarName(e.Name))
			complain(e.Value != "" && e.ValueFrom != nil, e.Name+" has two values")
		}
		for _, port := range c.Ports {
			complain(p.HostNetwork && port.HostPort != 0 && port.HostPort != port.ContainerPort,
				"on the host's network the ports are the same")
		}
	}
}

// documents returns the documents of the manifests.
func documents(t *testing.T) (docs [][]byte) {
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, bytes.Split(b, []byte("\n---\n"))...)
	}
	return docs
}

func TestManifests(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range documents(t) {
		kind, err := check(d)
		if err != nil {
			t.Errorf("%s: %v\n%s", kind, err, d)
		}
		seen[kind] = true
	}
	if want, got := slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("the manifests have %q, want %q", got, want)
	}
}

// TestManifests_Wrong breaks each manifest in ways that an API server refuses.
func TestManifests_Wrong(t *testing.T) {
	docs := bytes.Join(documents(t), []byte("\n---\n"))
	for _, tt := range [][3]string{
		{"clusterIP:", "clusterIp:", "unknown field"},
		{"port: 18514\n---", "port: many\n---", "cannot unmarshal string"},
		{"      app: perf-agent\n  template", "      app: other\n  template", "does not match the template's labels"},
		{"hostNetwork: true", "hostNetwork: yes please", "cannot unmarshal string"},
		{"mountPath: /dev/infiniband", "mountpath: /dev/infiniband", "unknown field"},
		{"volumes:\n        - name: infiniband", "volumes:\n        - name: other", "which is no volume"},
		{"restartPolicy: Never", "restartPolicy: Always", "Never or OnFailure"},
		{"kind: Job", "kind: Jobs", "not one of those"},
		{"name: perf-agents\n", "name: perf_agents\n", "RFC 1123"},
		{"backoffLimit: 0", "backoffLimit: 0\n  backoffLimit: 1", "already set"},
	} {
		if n := bytes.Count(docs, []byte(tt[0])); n == 0 {
			t.Errorf("%q is not in the manifests", tt[0])
			continue
		}
		var all []string
		for _, d := range bytes.Split(bytes.Replace(docs, []byte(tt[0]), []byte(tt[1]), 1), []byte("\n---\n")) {
			if _, err := check(d); err != nil {
				all = append(all, err.Error())
			}
		}
		if got := strings.Join(all, "; "); !strings.Contains(got, tt[2]) {
			t.Errorf("%q: %q, want %q", tt[1], got, tt[2])
		}
	}
}
