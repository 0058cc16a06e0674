package plot

import (
	_ "embed"
	"html/template"
	"strings"
)

//go:embed plot.tmpl
var text string

var drawings = template.Must(template.New("plot").Parse(text))

// HTML returns a chart and its legend as a figure, nothing if it has no point. The id is the chart's own on its page.
func (c Chart) HTML(id string) (template.HTML, error) {
	d := c.draw(id)
	if d == nil {
		return "", nil
	}
	return execute("chart", d)
}

// HTML returns a map as a figure.
func (m Matrix) HTML(id string) (template.HTML, error) {
	b, err := m.draw(id)
	if err != nil {
		return "", err
	}
	return execute("matrix", b)
}

// HTML returns a histogram as a figure, nothing if it has no value.
func (d Distribution) HTML(id string) (template.HTML, error) {
	g := d.draw(id)
	if g == nil {
		return "", nil
	}
	return execute("distribution", g)
}

func execute(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := drawings.ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}
