// Requests to the admin, whose pages are beside the console.

const BASE = new URL("../", document.baseURI);

/** Return the status of an answer with its document, or with a `problem` in words. */
export async function ask(method, path, body) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    const response = await fetch(new URL(path, BASE), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      redirect: "error",
    });
    const text = await response.text();
    const document = text ? JSON.parse(text) : null;
    const problem = response.ok ? null : (document?.detail ?? problemsIn(document) ?? `The server answers ${response.status}.`);
    return { status: response.status, document, problem };
  } catch (error) {
    return { status: 0, document: null, problem: `The server doesn't answer: ${error.message}.` };
  }
}

/** Return the status of a page; 0 if there is no answer within so many seconds. */
export async function askStatus(path, patience) {
  const signal = AbortSignal.timeout(patience * 1000);
  try {
    const response = await fetch(new URL(path, BASE), { cache: "no-store", redirect: "error", signal });
    return response.status;
  } catch {
    return 0;
  }
}

/** Return the response to a request whose answer goes on for a time, or a `problem` in words. */
export async function openStream(path, body) {
  const headers = { accept: "application/x-ndjson", "content-type": "application/json" };
  try {
    const response = await fetch(new URL(path, BASE), { method: "POST", headers, body: JSON.stringify(body), cache: "no-store" });
    if (response.ok) return { response, problem: null };
    return { response: null, problem: (await response.json()).detail };
  } catch (error) {
    return { response: null, problem: `The server doesn't answer: ${error.message}.` };
  }
}

function problemsIn(document) {
  const found = document?.problems?.map((one) => `${one.file}:${one.line} ${one.field}: ${one.rule}`);
  return found?.length ? found.join("; ") : null;
}

/** Return the text of a page. */
export async function askText(path) {
  try {
    const response = await fetch(new URL(path, BASE), { headers: { accept: "text/plain" }, cache: "no-store" });
    return response.ok ? await response.text() : `The server answers ${response.status}.`;
  } catch (error) {
    return `The server doesn't answer: ${error.message}.`;
  }
}

/** Return the path of a page, with its names quoted. */
export const page = (...steps) => steps.map(encodeURIComponent).join("/");
