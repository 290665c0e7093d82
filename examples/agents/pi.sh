#!/bin/sh
# A task in a shell, by pi: it finds its models in its home, which is this folder.
mkdir -p .pi/agent
cat > .pi/agent/models.json <<JSON
{"providers": {"troupe": {"baseUrl": "$OPENAI_BASE_URL", "api": "openai-completions", "apiKey": "$OPENAI_API_KEY", "models": [{"id": "coder"}]}}}
JSON
exec pi -p "$(python3 -c 'import json; print(json.load(open("problem.json"))["task"])')" --provider troupe --model coder
