#!/usr/bin/env bash
# Makes published-schema.json anew: JSON Schemas of the dashboard and the panels, from the types of the package
# @grafana/schema that Grafana publishes. Texts are left out. Needs npm:  grafana/fetch-schema.sh 13.2.3
set -euo pipefail
version=${1:?which version of @grafana/schema}
target=$(cd "$(dirname "$0")" && pwd)/published-schema.json
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --no-save --silent "@grafana/schema@$version" typescript@5.9 ts-json-schema-generator@2
types=node_modules/@grafana/schema/dist/types/raw
options='{"target": "es2022", "module": "esnext", "moduleResolution": "bundler", "skipLibCheck": true, "strict": true}'
echo "{\"compilerOptions\": $options, \"files\": []}" >tsconfig.json
generate() {
    npx --no-install ts-json-schema-generator --tsconfig tsconfig.json --no-type-check --path "$1" --type "$2" -o "$3.json"
}
mkdir made
generate "$types/dashboard/x/types.gen.d.ts" Dashboard made/dashboard
for kind in timeseries stat heatmap bargauge table; do
    file=$types/composable/$kind/panelcfg/x/types.gen.d.ts
    generate "$file" Options "made/$kind-options"
    if grep -q "interface FieldConfig" "$file"; then generate "$file" FieldConfig "made/$kind-field"; fi
done
VERSION=$version node - "$target" <<'SCRIPT'
const fs = require("fs")
const bare = (node, inside) =>
  Array.isArray(node) ? node.map((one) => bare(one))
  : node && typeof node === "object" ? Object.fromEntries(Object.entries(node)
      .filter(([key]) => inside || !["description", "default", "deprecated", "$schema"].includes(key))
      .map(([key, value]) => [key, bare(value, ["properties", "definitions"].includes(key) && !inside)]))
  : node
const schemas = Object.fromEntries(fs.readdirSync("made").sort()
  .map((file) => [file.replace(".json", ""), bare(JSON.parse(fs.readFileSync(`made/${file}`)))]))
const lines = Object.entries(schemas).map(([name, schema]) => `  ${JSON.stringify(name)}: ${JSON.stringify(schema)}`)
const head = `{"package": "@grafana/schema", "version": ${JSON.stringify(process.env.VERSION)}, "license": "Apache-2.0"`
fs.writeFileSync(process.argv[2], `${head}, "schemas": {\n${lines.join(",\n")}\n}}\n`)
SCRIPT
