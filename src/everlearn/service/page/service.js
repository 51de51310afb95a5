// Talks to the service: the token, and what to say when something does not work.

let token = sessionStorage.getItem("everlearn-token") ?? "";

export const hasToken = () => token !== "";

export function useToken(given) {
  token = given;
  sessionStorage.setItem("everlearn-token", token);
}

export class TokenNeeded extends Error {}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

export async function call(path, body) {
  const headers = {};
  // Headers are bytes: the token's are those of UTF-8, as in the service.
  if (token) headers.Authorization = `Bearer ${String.fromCharCode(...new TextEncoder().encode(token))}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The service does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  const error = sentence(answer.error ?? `the service answered with ${response.status}.`);
  if (response.status === 401) throw new TokenNeeded(error);
  // Health is told with 503 too, and then it is an answer.
  if (!response.ok && answer.status === undefined) throw new Error(error);
  return answer;
}
