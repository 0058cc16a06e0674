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

// HTML returns a heat map as a figure.
func (m Matrix) HTML(id string) (template.HTML, error) { return execute("matrix", m.draw(id)) }

func execute(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := drawings.ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}
